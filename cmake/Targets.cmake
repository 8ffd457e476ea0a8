# One function for each kind of target.

# A stage of the flow: a static library that may use only the stages named in DEPENDS.
function(vernier_stage name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS;LIBRARIES" ${ARGN})
  add_library(vernier_${name} STATIC ${ARG_SOURCES})
  target_include_directories(vernier_${name} PUBLIC ${CMAKE_SOURCE_DIR}/include ${CMAKE_SOURCE_DIR}/src)
  list(TRANSFORM ARG_DEPENDS PREPEND vernier_)
  target_link_libraries(vernier_${name} PUBLIC ${ARG_DEPENDS} fmt::fmt PRIVATE ${ARG_LIBRARIES})
endfunction()

# The tests with the label "threads", for a build with the thread sanitizer.
add_custom_target(threaded_tests)

# A GoogleTest program from NAME.cc, called NAME unless TARGET says otherwise; DEPENDS are stages. LABELS: "threads",
# run with the thread sanitizer; "every_target", run once for each instruction set.
function(vernier_test name)
  cmake_parse_arguments(ARG "" "TARGET" "DEPENDS;LIBRARIES;LABELS" ${ARGN})
  if(NOT ARG_TARGET)
    set(ARG_TARGET ${name})
  endif()
  add_executable(${ARG_TARGET} ${name}.cc)
  list(TRANSFORM ARG_DEPENDS PREPEND vernier_)
  target_include_directories(${ARG_TARGET} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  target_link_libraries(${ARG_TARGET} PRIVATE ${ARG_DEPENDS} ${ARG_LIBRARIES} GTest::gmock GTest::gtest_main)
  if("threads" IN_LIST ARG_LABELS)
    add_dependencies(threaded_tests ${ARG_TARGET})
  endif()
  string(REPLACE ";" "\\;" labels "${ARG_LABELS}")  # a list of one property
  gtest_discover_tests(${ARG_TARGET} DISCOVERY_TIMEOUT 60 PROPERTIES LABELS "${labels}")
endfunction()

# A libFuzzer program NAME_fuzz from NAME_fuzz.cc.
function(vernier_fuzz name)
  cmake_parse_arguments(ARG "" "" "DEPENDS" ${ARGN})
  add_executable(${name}_fuzz ${name}_fuzz.cc)
  list(TRANSFORM ARG_DEPENDS PREPEND vernier_)
  target_link_libraries(${name}_fuzz PRIVATE ${ARG_DEPENDS} -fsanitize=fuzzer)
endfunction()
