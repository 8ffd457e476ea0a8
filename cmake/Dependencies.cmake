# Everything comes from Debian's packages; scripts/setup installs them.
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(fmt REQUIRED)
find_package(simdjson REQUIRED)
find_package(yaml-cpp REQUIRED)
pkg_check_modules(hwy REQUIRED IMPORTED_TARGET libhwy)
pkg_check_modules(deflate REQUIRED IMPORTED_TARGET libdeflate)

# Static, so that the wheel needs no libz where it is installed.
find_library(Z_ARCHIVE libz.a REQUIRED)
