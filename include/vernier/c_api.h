/* The door to vernier for every language but C++. Plain C; no exception crosses it; nothing is printed,
 * except by VnMain.
 *
 * Every call that can fail returns a VnStatus. When it is not VN_OK, VnLastError() tells this thread what
 * happened. Handles are opaque, made by one call and released by the VnClose... of their kind, which accepts
 * NULL. What a handle points to lives as long as the handle. Different handles may be used by different
 * threads at once; calls that only read may share one.
 *
 * Within one VN_API_VERSION calls and fields are only added: a struct that may grow begins with its size as
 * the caller knows it, and measurements are columns of a table, found by name. */
#ifndef VERNIER_C_API_H_
#define VERNIER_C_API_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define VN_API __attribute__((visibility("default")))
#define VN_API_VERSION 1

typedef int32_t VnStatus;
enum { VN_OK = 0, VN_FAILED = 1, VN_CANCELLED = 2 };

VN_API int32_t VnApiVersion(void);     /* VN_API_VERSION of the library that was loaded */
VN_API const char* VnVersion(void);    /* "0.1.0" */
VN_API const char* VnTargetName(void); /* the instruction set in use, e.g. "AVX3" */

/* The last failure of a call made by this thread; UTF-8, valid until this thread's next call. */
typedef struct VnError {
  const char* key;     /* stable, upper case, for programs: "TRUNCATED" */
  const char* where;   /* the file, and the field or tensor inside it */
  const char* detail;  /* what was found there */
  const char* hint;    /* the next step to try; may be empty */
  const char* message; /* all of it in one line */
} VnError;
VN_API const VnError* VnLastError(void);

/* Asks running calls to stop. They then return VN_CANCELLED soon. One handle may serve any number of calls.
 */
typedef struct VnCancel VnCancel;
VN_API VnStatus VnNewCancel(VnCancel** cancel);
VN_API void VnRequestCancel(VnCancel* cancel); /* from any thread */
VN_API void VnCloseCancel(VnCancel* cancel);

/* Elements that the caller keeps alive during the call. */
typedef struct VnTensor {
  const void* data;  /* the element [0, 0, ...]; little endian; need not be aligned */
  const char* dtype; /* "float32", "bfloat16", ...; "torch.float32" is understood as well */
  int32_t ndim;
  const int64_t* shape;
  const int64_t* strides_bytes; /* NULL: C order. Anything else is gathered into a copy first */
} VnTensor;

/* NULL instead of a VnOptions means all defaults; VnInitOptions fills them in. Fields that a call has no use
 * for are ignored. */
typedef struct VnOptions {
  size_t struct_bytes;        /* sizeof(VnOptions) of the caller */
  int32_t num_threads;        /* 0: one per core */
  int32_t crc32;              /* of the bytes, for VnStats; nonzero: yes */
  double rtol, atol;          /* negative: by dtype, as torch.testing.assert_close */
  const char* match;          /* "exact", "fuzzy", "position"; NULL: "exact" */
  const char* const* renames; /* OLD, NEW, OLD, NEW, ...: OLD in a target name becomes NEW before matching */
  size_t num_renames;         /* pairs of them */
  VnCancel* cancel;           /* may be NULL */
} VnOptions;
VN_API void VnInitOptions(VnOptions* options);

/* Rows of typed cells under named columns: what every measurement gives. */
typedef struct VnTable VnTable;
enum {
  VN_CELL_NONE = 0,
  VN_CELL_BOOL = 1,
  VN_CELL_INT = 2,
  VN_CELL_UINT = 3,
  VN_CELL_DOUBLE = 4,
  VN_CELL_TEXT = 5
};
typedef struct VnCell {
  int32_t kind;
  int64_t integer;  /* of VN_CELL_BOOL, VN_CELL_INT; the bits of a VN_CELL_UINT */
  double number;    /* of VN_CELL_DOUBLE */
  const char* text; /* of VN_CELL_TEXT; not always terminated */
  size_t text_bytes;
} VnCell;
VN_API size_t VnTableNumRows(const VnTable* table);
VN_API size_t VnTableNumColumns(const VnTable* table);
VN_API const char* VnTableColumn(const VnTable* table, size_t column); /* NULL when there is no such column */
/* `cells` receives one for each column. */
VN_API VnStatus VnTableRow(const VnTable* table, size_t row, VnCell* cells, size_t num_cells);
VN_API void VnCloseTable(VnTable* table);

/* One row: the statistics of a tensor. */
VN_API VnStatus VnStats(const VnTensor* tensor, const VnOptions* options, VnTable** row);
/* One row: everything measured between two tensors of equal shape. */
VN_API VnStatus VnPair(const VnTensor* target, const VnTensor* golden, const VnOptions* options,
                       VnTable** row);

/* Compares everything under two paths. `rows` has one row for each tensor, in the order of the report of
 * `vernier compare`; `summary` has one row: counts, coverage and the verdict. */
VN_API VnStatus VnCompare(const char* target, const char* golden, const VnOptions* options, VnTable** rows,
                          VnTable** summary);

/* The tensors under a path. */
typedef struct VnDump VnDump;
typedef struct VnTensorInfo {
  const char* name; /* as in the file, not always UTF-8 */
  size_t name_bytes;
  const char* dtype;
  int32_t ndim;
  const int64_t* shape;
  uint64_t num_bytes;
  const char* file;
  const char* damage; /* NULL, or why it cannot be loaded; dtype and shape may then be unknown */
} VnTensorInfo;
VN_API VnStatus VnOpenDump(const char* path, const VnOptions* options, VnDump** dump);
VN_API size_t VnDumpCount(const VnDump* dump);
VN_API VnStatus VnDumpInfo(const VnDump* dump, size_t index, VnTensorInfo* info);
VN_API void VnCloseDump(VnDump* dump);

/* The elements of one tensor, in C order: the file's own bytes, mapped, wherever the file has them that way.
 * They outlive the dump and stay until VnCloseLoaded. */
typedef struct VnLoaded VnLoaded;
VN_API VnStatus VnDumpLoad(const VnDump* dump, size_t index, VnLoaded** loaded);
VN_API VnStatus VnLoadedTensor(const VnLoaded* loaded, VnTensor* tensor);
VN_API void VnCloseLoaded(VnLoaded* loaded);

/* Writers. The file appears under its name when it is complete. */
VN_API VnStatus VnWriteNpy(const char* path, const VnTensor* tensor);
VN_API VnStatus VnWritePt(const char* path, const VnTensor* tensor);
VN_API VnStatus VnWriteSafetensors(const char* path, const char* const* names, const VnTensor* tensors,
                                   size_t num_tensors);

/* The command line: what the executable does, with its output and exit codes. */
VN_API int VnMain(int argc, char** argv);

#ifdef __cplusplus
}
#endif

#endif /* VERNIER_C_API_H_ */
