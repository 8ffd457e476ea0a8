# Everything comes from Debian's packages; scripts/setup installs them.
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(fmt REQUIRED)
find_package(simdjson REQUIRED)
find_package(yaml-cpp REQUIRED)
pkg_check_modules(hwy REQUIRED IMPORTED_TARGET libhwy)
pkg_check_modules(deflate REQUIRED IMPORTED_TARGET libdeflate)
pkg_check_modules(xlsxwriter REQUIRED IMPORTED_TARGET xlsxwriter)

# HDF5, linked into our own library and hidden there. Debian's shared HDF5 would load 25 network libraries (it can read
# from S3), and would meet the copy that h5py brings into the same Python process. The static one is not compiled for
# shared libraries, but the only symbols that stand in the way are the C library's data symbols: a copy of the archive
# refers to ours instead, which src/format/hdf5_symbols.cc defines.
find_path(HDF5_INCLUDE hdf5.h PATH_SUFFIXES hdf5/serial REQUIRED)
find_library(HDF5_ARCHIVE libhdf5_serial.a REQUIRED)
find_library(SZ_ARCHIVE libsz.a REQUIRED)
find_library(AEC_ARCHIVE libaec.a REQUIRED)
find_library(Z_ARCHIVE libz.a REQUIRED)
set(HDF5_OWN ${CMAKE_BINARY_DIR}/hdf5/libhdf5_own.a)
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/hdf5)
add_custom_command(
  OUTPUT ${HDF5_OWN}
  COMMAND ${CMAKE_OBJCOPY} --redefine-sym stderr=vn_hdf5_stderr --redefine-sym stdout=vn_hdf5_stdout
          ${HDF5_ARCHIVE} ${HDF5_OWN}
  DEPENDS ${HDF5_ARCHIVE} VERBATIM)
add_custom_target(hdf5_archive DEPENDS ${HDF5_OWN})
# Behind the archive on the linker's command line, since it is the archive that asks for them.
add_library(hdf5_symbols STATIC ${CMAKE_SOURCE_DIR}/src/format/hdf5_symbols.cc)
add_library(hdf5_own INTERFACE)
add_dependencies(hdf5_own hdf5_archive)
target_include_directories(hdf5_own SYSTEM INTERFACE ${HDF5_INCLUDE})
target_link_libraries(hdf5_own INTERFACE ${HDF5_OWN} ${SZ_ARCHIVE} ${AEC_ARCHIVE} ${Z_ARCHIVE} hdf5_symbols m
                      ${CMAKE_DL_LIBS})
