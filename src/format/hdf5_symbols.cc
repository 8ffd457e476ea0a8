// What the HDF5 library wants from others, for whoever links it (reading does not: see hdf5_internal.h).
//
// Debian's static library can read from S3 and so asks for curl and OpenSSL. We never open that driver, and
// 25 network libraries are a high price for not using it: these stand-ins satisfy the linker and, should they
// ever be called, fail. The two streams replace the C library's in the copy of the archive that
// cmake/Dependencies.cmake makes, because code that was not compiled for shared libraries cannot refer to
// data in another one. Our code turns the library's printing off; the streams are there for the paths that
// print anyway.
//
// Hidden, so that they never stand in for the real ones in a process that has them.
#include <cstddef>
#include <cstdio>

#pragma GCC visibility push(hidden)
extern "C" {

// Constants at load time would need the address of another library's data; this runs before anything prints.
std::FILE* vn_hdf5_stderr = stderr;
std::FILE* vn_hdf5_stdout = stdout;

int curl_global_init(long) { return 1; }
void curl_global_cleanup() {}
void* curl_easy_init() { return nullptr; }
void curl_easy_cleanup(void*) {}
int curl_easy_perform(void*) { return 1; }
int curl_easy_setopt(void*, int, ...) { return 1; }
void* curl_slist_append(void*, const char*) { return nullptr; }
void curl_slist_free_all(void*) {}

const void* EVP_sha256() { return nullptr; }
unsigned char* HMAC(const void*, const void*, int, const unsigned char*, std::size_t, unsigned char*,
                    unsigned*) {
  return nullptr;
}
unsigned char* SHA256(const unsigned char*, std::size_t, unsigned char*) { return nullptr; }

}  // extern "C"
#pragma GCC visibility pop
