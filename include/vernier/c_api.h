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
#define VN_API_VERSION 2

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
  size_t struct_bytes; /* sizeof(VnOptions) of the caller */
  int32_t num_threads; /* 0: one per core */
  int32_t crc32;       /* of the bytes, for VnStats; nonzero: yes */
  double rtol, atol;   /* negative: by dtype, as torch.testing.assert_close */
  VnCancel* cancel;    /* may be NULL */
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

/* Compares everything under two paths. `request_json` is {"target": "...", "golden": "...", ...} with the
 * members of CompareRequest in compare.h; what is left out has its default, an unknown key is an error.
 * `hooks` may be NULL. Calls may run at once in any number of threads. */
typedef struct VnCompareHooks {
  size_t struct_bytes; /* sizeof(VnCompareHooks) of the caller */
  VnCancel* cancel;    /* may be NULL */
  void* context;       /* handed to the two functions below, which may be NULL; they come one at a time */
  void (*on_log)(void* context, int32_t level,
                 const char* line); /* level: 0 debug, 1 info, 2 warning, 3 error */
  void (*on_progress)(void* context, uint64_t items_done, uint64_t num_items, uint64_t bytes_done,
                      uint64_t num_bytes);
  int32_t keep_rows; /* nonzero: VnOutcomeRows has them */
} VnCompareHooks;
typedef struct VnOutcome VnOutcome;
VN_API VnStatus VnCompareRecordings(const char* request_json, const VnCompareHooks* hooks,
                                    VnOutcome** outcome);
/* What was found, as JSON: the members of CompareOutcome in compare.h. */
VN_API const char* VnOutcomeJson(const VnOutcome* outcome);
/* One row for each row of the reports, in their order; "verdict" is among the columns of every family. */
VN_API const VnTable* VnOutcomeRows(const VnOutcome* outcome);
VN_API void VnCloseOutcome(VnOutcome* outcome);

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
/* The same without waiting for the disk: whole or not at all, but a power failure may take it back. For files
 * by the hundred. */
VN_API VnStatus VnWritePtUnsynced(const char* path, const VnTensor* tensor);
VN_API VnStatus VnWriteSafetensors(const char* path, const char* const* names, const VnTensor* tensors,
                                   size_t num_tensors);
/* Any bytes. */
VN_API VnStatus VnWriteText(const char* path, const char* text, size_t text_bytes);

/* One row: the errors of a device's tensor against the CPU's, as unit tests of operators report them.
 * Columns: is_pass ("pass" or "fail"), dtype ("torch.float" for float32), shape, min-val and max-val of the
 * CPU's finite elements, max (the largest error), message, and for k from 1 to `num_orders` 1e-k, the number
 * of elements with an error > 10^-k. max and the counts are VN_CELL_NONE when dtypes or shapes differ. */
VN_API VnStatus VnErrorCounts(const VnTensor* cpu, const VnTensor* device, int32_t num_orders,
                              const VnOptions* options, VnTable** row);
/* The details CSV of such tests: a file with its header alone, in the place of what was there; and one row
 * more, which any number of processes may add at once. `counts` is what VnErrorCounts gave, NULL when nothing
 * was compared; is_pass and message NULL: those of `counts`. */
VN_API VnStatus VnBeginDetails(const char* path, int32_t num_orders);
VN_API VnStatus VnAppendDetails(const char* path, int32_t num_orders, const char* name, const char* op_name,
                                const char* device, const char* is_pass, const char* message,
                                const VnTable* counts);

/* The recorder: writes dump.json (or debug.json), stack.json, construct.json, identity.jsonl and tensor files
 * while a program runs. See docs/formats/msprobe_dump.md for the files. Thread-safe: any number of threads
 * may call at once with one recorder; only VnCloseRecorder must be the last. Tensors are measured and copied
 * during the call that hands them over: their memory may change as soon as it returns. What is finished is in
 * files a second later, though no other call comes. */
typedef struct VnRecorder VnRecorder;

/* Code of a dtype in the words below ("float32", "torch.bfloat16", ...); -1: none of ours. */
VN_API int64_t VnDtypeCode(const char* name);

/* A tensor is described by 6 + 2 * ndim words: the address of element [0, 0, ...] (or the slot when
 * VN_TENSOR_DEFERRED), an id of its storage (0: none; ids must not be reused before VnRecorderEnd), its
 * version, its dtype's code, flags, ndim, then shape[ndim], then strides[ndim] in elements, which must not be
 * negative. Tensors of one call follow each other. */
enum {
  VN_TENSOR_REQUIRES_GRAD = 1,
  VN_TENSOR_NO_DATA = 2,       /* meta, fake, sparse, ...: no statistics, no digest, no file */
  VN_TENSOR_DEFERRED = 4,      /* its numbers come with VnRecorderFill */
  VN_TENSOR_STORE = 8,         /* write its file although "tensors" is false */
  VN_TENSOR_NO_STORE = 16,     /* write no file although "tensors" is true */
  VN_TENSOR_COPY_FOLLOWS = 64, /* with DEFERRED: VnRecorderFillTensor completes it, not VnRecorderFill */
  VN_TENSOR_ON_DEVICE = 128,   /* the address is memory of a device; see VnRecorderUseCuda */
  VN_TENSOR_ARRAY = 256,       /* of NumPy: Mean and Norm of every type, no checksum, no requires_grad */
  VN_TENSOR_PARAMETER = 512,   /* a torch.nn.Parameter */
  VN_TENSOR_PLACED = 1024      /* one more word right behind the strides: its offset in the storage, in
                                  elements. That, the id of its storage and the version, which must grow
                                  with each change of the storage, are written to identity.jsonl */
};
enum {
  VN_PUT_FINISH = 1,      /* the entry is complete: write it */
  VN_PUT_MOVE_TO_END = 2, /* its place in the document becomes the end */
  VN_PUT_REPLACE = 4,     /* a field that is there already gets the new value, in its place */
  VN_PUT_WHOLE = 8,       /* `text` is the entry's whole value, replacing any earlier one */
  VN_PUT_KEEP = 16,       /* will be put to again: keep it in memory until VnRecorderEnd */
  VN_PUT_REPEATED = 32    /* the call repeats an earlier one: recomputation of activations */
};
enum {
  VN_SEEN_NOT_FINITE = 1, /* a tensor of this call holds NaN or an infinity */
  VN_SEEN_STOPPED = 2,    /* recording has stopped (disk full, unwritable): the call did nothing */
  VN_SEEN_LAUNCHES = 4    /* there are kernels to launch now: see VnRecorderTakeLaunches */
};

/* {"threads": 0, "writers": 0, "staging_bytes": 1073741824, "min_free_bytes": -1, "dedup": true, "summary":
 * "statistics" | "md5" | "xor", "precision": "low" | "high", "sketch": 0 | 8 | 16 | 32 | 64, "tensors":
 * false, "identity": false, "diff_nums": 1}: all optional. threads 0: one per core. writers 0: the cores but
 * two, 16 at most. min_free_bytes -1: 5 GiB or 5 % of the disk, whichever is less. An unknown key is an
 * error.
 */
VN_API VnStatus VnRecorderOpen(const char* options_json, VnRecorder** recorder);
/* {"folder": "...", "file": "dump.json" | "debug.json", "header": {"task": "...", "level": "...", ...},
 * "dump_data_dir": "..." | null, "stack": true, "construct": true}. Creates the folder and the empty
 * documents; the members of "header" open the document as they are, then come dump_data_dir and data. The
 * same folder again, before VnRecorderEnd, goes on with it; another one ends the one before. */
VN_API VnStatus VnRecorderBegin(VnRecorder* recorder, const char* begin_json);
enum {
  VN_CALL_STORE = 1, /* its tensors are worth storing */
  VN_CALL_STOP = 2   /* diff_nums calls were found: record nothing more */
};
/* The step that begins next is compared with an earlier recording of it: the folder with its dump.json, whose
 * tensors have CRC-32s. A folder proc4711 stands for the only one beside it that is called so. Before
 * VnRecorderBegin. */
VN_API VnStatus VnRecorderCompareWith(VnRecorder* recorder, const char* folder);
/* Compares one call that is complete. `parts` is JSON: a list of what would be put for it, each a list of
 * `text` as VnRecorderPut takes it and the descriptors of its tensors as texts. `found_before`: `num_found`
 * at the moment the call began, so that a call is told from one around it. `says` are lines for a person, and
 * what to do next; empty for most calls; valid until this thread's next call. */
VN_API VnStatus VnRecorderCompareCall(VnRecorder* recorder, const char* name, size_t name_bytes,
                                      const char* parts, size_t parts_bytes, uint64_t found_before,
                                      uint32_t* what, uint64_t* num_found, const char** says);
/* What the calls of this step came to, as a line for a person. `is_problem`: nothing could be compared. */
VN_API VnStatus VnRecorderCompared(VnRecorder* recorder, uint32_t* is_problem, const char** says);
/* Adds to the entry `name` (UTF-8, not escaped), which is made at its first Put. `text` is compact JSON, in
 * which numbers and strings are kept as they are written: {"field": value, ...}. Each byte 0x01 in it stands
 * for the next tensor of `words`; an object that follows that byte at once describes it differently:
 * "type" and "dtype" replace its texts, the members of "after" follow requires_grad.
 * `stack` >= 0 adds the name to that stack (see VnRecorderStack). `seen` may be NULL.
 * Fails once when recording has to stop; after that it succeeds, does nothing and says VN_SEEN_STOPPED. */
VN_API VnStatus VnRecorderPut(VnRecorder* recorder, const char* name, size_t name_bytes, const char* text,
                              size_t text_bytes, const int64_t* words, size_t num_words, int64_t stack,
                              uint32_t flags, uint32_t* seen);
/* A member of construct.json; `parent` may be NULL, and `micro_step` -1 for none. The same name again changes
 * its value in place. */
VN_API VnStatus VnRecorderConstruct(VnRecorder* recorder, const char* name, size_t name_bytes,
                                    const char* parent, size_t parent_bytes, int64_t micro_step);
/* Adds a name to a stack without making a record: task structure. */
VN_API VnStatus VnRecorderNote(VnRecorder* recorder, const char* name, size_t name_bytes, int64_t stack);
/* Adds an object to identity.jsonl that says what holds for the whole step. */
VN_API VnStatus VnRecorderState(VnRecorder* recorder, const char* state_json, size_t state_bytes);
/* Says what a stack's number means: a compact JSON list of texts, one for each frame. Numbers live as long as
 * the recorder; two numbers with equal texts are one stack in the file. */
VN_API VnStatus VnRecorderStack(VnRecorder* recorder, int64_t stack, const char* frames_json,
                                size_t frames_bytes);
/* Measures one tensor now, stores it as FILE_STEM.pt when it is to be stored, and gives its descriptor as
 * JSON, valid until this thread's next call. `flags` is for later use: 0. */
VN_API VnStatus VnRecorderDescribe(VnRecorder* recorder, const char* file_stem, size_t stem_bytes,
                                   const int64_t* words, size_t num_words, uint32_t flags, const char** text,
                                   size_t* text_bytes);
/* The numbers of deferred tensors: for each slot, Max, Min, Mean and Norm in `values`, each as `kinds` says:
 * VN_CELL_NONE (null), VN_CELL_BOOL, VN_CELL_INT, VN_CELL_UINT, or VN_CELL_DOUBLE (the bits of a double);
 * `kinds` NULL: all doubles. `digests`: the CRC-32 or the xor of each; NULL: null. A slot is forgotten once
 * filled, and its number may be used again. Slots never filled are null at VnRecorderFlush. */
VN_API VnStatus VnRecorderFill(VnRecorder* recorder, const int64_t* slots, size_t num_slots,
                               const int64_t* values, const uint8_t* kinds, const uint64_t* digests);
/* Sketches of deferred tensors, before VnRecorderFillFound: for each slot VN_SKETCH_WORDS words, as a kernel
 * writes them to the ring of VnRecorderUseKernels; the last one is not looked at. */
enum { VN_SKETCH_WORDS = 66 };
VN_API VnStatus VnRecorderFillSketches(VnRecorder* recorder, const int64_t* slots, size_t num_slots,
                                       const uint64_t* words);
/* The same from what was found on a device: for each slot eight words, as a kernel writes them to the ring of
 * VnRecorderUseKernels; the last two are not looked at. The rules for Max, Min, Mean and Norm are applied
 * here. */
VN_API VnStatus VnRecorderFillFound(VnRecorder* recorder, const int64_t* slots, size_t num_slots,
                                    const uint64_t* found);
/* A copy on the host of one deferred tensor: measured, unless VnRecorderFill gave its numbers before, and
 * stored when it is to be stored. */
VN_API VnStatus VnRecorderFillTensor(VnRecorder* recorder, int64_t slot, const int64_t* words,
                                     size_t num_words);
/* The same for memory that stays as it is until VnRecorderReturned names the slot: after each call once,
 * though it fails. A tensor in C order is measured and stored by the recorder's threads, from where it lies;
 * the call returns at once. Any other one as by VnRecorderFillTensor. */
VN_API VnStatus VnRecorderLendTensor(VnRecorder* recorder, int64_t slot, const int64_t* words,
                                     size_t num_words);
/* The slots of lent memory that is the caller's again, `max_slots` at most; each is told once. `wait` not 0:
 * until there is one, or nothing is lent. A slot whose number was used twice is told twice. */
VN_API VnStatus VnRecorderReturned(VnRecorder* recorder, int32_t wait, int64_t* slots, size_t max_slots,
                                   size_t* num_slots);
/* Before a deferred tensor is put: whether it is the same as an earlier one of the open folder, so that its
 * elements need not be copied. That is one with equal dtype, shape and checksums of the bytes in C order:
 * their CRC-32, and the xor of their words of 8 bytes, zeros behind the last. `same`: the slot of that one,
 * to be handed to VnRecorderFillSame; 0: none, and this one has to be filled. `words` as above; the address
 * is not looked at. Slots must not be 0, and not be used again before VnRecorderEnd. */
VN_API VnStatus VnRecorderFindSame(VnRecorder* recorder, int64_t slot, const int64_t* words, size_t num_words,
                                   uint32_t crc32, uint64_t xor64, int64_t* same);
/* Completes a deferred tensor with the numbers and the file of the same one. That was filled before. */
VN_API VnStatus VnRecorderFillSame(VnRecorder* recorder, int64_t slot, int64_t same);
/* Prepares measuring in the memory of CUDA devices; `nvrtc_path` is the file of CUDA's run-time compiler,
 * NULL: by its usual names. Fails with the reason where there is no driver, no compiler or no device. A
 * tensor with VN_TENSOR_ON_DEVICE has two more words at its end: the number of the device and the stream
 * (CUstream). It must have a dtype whose bit is set in VnCudaDtypes and 8 dimensions at most, and gets no
 * file. It is measured on that stream: the memory may change, or go, as soon as later work on the stream
 * changes it. The numbers arrive later; VnRecorderFlush waits for them. */
VN_API VnStatus VnRecorderUseCuda(VnRecorder* recorder, const char* nvrtc_path);
VN_API uint64_t VnCudaDtypes(void); /* bit i: the dtype with code i can be measured there */
/* The same for devices on which the caller launches a kernel of its own, in place of VnRecorderUseCuda.
 * `ring` is memory of the host that the device can write to at `ring_on_device`: VN_RING_WORDS words of 64
 * bits, which stay until the recorder is closed. Job s writes eight words at 8 * (s % (VN_RING_WORDS / 8)),
 * in any order: sum, sum of squares (doubles), lowest, highest (doubles, or integers), digest, whether the
 * last element has a sign, s, and the exclusive or of these seven. Where sketches are asked for, the ring has
 * VN_SKETCH_WORDS more words for each place behind these: the 64 sums, or up to 63 elements and zeros
 * (doubles), the number of elements that counted as 0, and the exclusive or of these and s. */
enum { VN_RING_WORDS = 65536 };
VN_API VnStatus VnRecorderUseKernels(VnRecorder* recorder, void* ring, uint64_t ring_on_device);
/* What the caller's thread must launch, after a call that has said VN_SEEN_LAUNCHES and before anything may
 * change these tensors. Each launch is VN_LAUNCH_WORDS words: device, stream, number of blocks, number of
 * jobs, variant; then the kernel's arguments: s of the first job; for each of four jobs address, number of
 * elements, vectors of 16 bytes for a block and, but for the first job, its first block; 8 sizes and 8
 * strides of the only job. The variant has, a byte each: kind, bytes of an element, what is wanted (1
 * statistics, 2 CRC-32, 4 xor, 8 sketch), layout (0 one run of memory, 1 runs of whole vectors, 2 anything),
 * number of sizes, whether indices need 64 bits. Valid until this thread's next call. */
enum { VN_LAUNCH_WORDS = 37 };
VN_API VnStatus VnRecorderTakeLaunches(VnRecorder* recorder, const int64_t** words, size_t* num_words);
/* Computes CRC-32 and the exclusive or of words of 64 bits, of a tensor with VN_TENSOR_ON_DEVICE in C order,
 * where it is. Begin gives a number, 0 where that cannot be done; then, after VnRecorderTakeLaunches and the
 * launches where there are any, Take waits for the device. `known` is 0 where the numbers were lost. */
VN_API VnStatus VnRecorderBeginChecksums(VnRecorder* recorder, const int64_t* words, size_t num_words,
                                         uint64_t* number);
VN_API VnStatus VnRecorderTakeChecksums(VnRecorder* recorder, uint64_t number, uint32_t* crc32,
                                        uint64_t* xor64, uint32_t* known);
/* `count` jobs from s = `first` on will never write anything; `why` is told once, by VnRecorderFlush. */
VN_API VnStatus VnRecorderLose(VnRecorder* recorder, uint64_t first, uint64_t count, const char* why);
/* Words of 32 bits from which the kernel computes CRC-32: for stepping over 256 vectors and over a word, the
 * products with each of 8 times 16 half bytes; x^(128 * (255 - i)); x^(i << 8 * k) for k in 0..3, i in
 * 0..255. */
VN_API const uint32_t* VnKernelTables(size_t* num_words);
/* stop(): writes everything that was put, unfinished entries as they are, in the final order. */
VN_API VnStatus VnRecorderFlush(VnRecorder* recorder);
/* step(): VnRecorderFlush, then forgets the folder and everything remembered of tensors. */
VN_API VnStatus VnRecorderEnd(VnRecorder* recorder);

typedef struct VnRecordTotals {
  size_t struct_bytes;   /* sizeof(VnRecordTotals) of the caller */
  uint64_t num_records;  /* since VnRecorderOpen, as all of these */
  uint64_t num_tensors;  /* handed over */
  uint64_t num_measured; /* of them; the others were stored before, or have no elements */
  uint64_t num_files;
  uint64_t bytes_seen;     /* of elements handed over for storing */
  uint64_t bytes_stored;   /* of elements written */
  uint64_t bytes_saved;    /* seen and not written again */
  uint64_t bytes_measured; /* of elements that were read */
} VnRecordTotals;
VN_API VnStatus VnRecorderTotals(VnRecorder* recorder, VnRecordTotals* totals);
/* Ends what is open. In a forked child it only lets go of the memory. */
VN_API void VnCloseRecorder(VnRecorder* recorder);

/* The pre-check: what an API gave on a device against what the bench gave, judged row by row. A handle is
 * used by one thread at a time. Settings are JSON, all optional: {"policy": "manual" | "per_api" |
 * "benchmark_first", "thresholds": "manual" | "peer", "precision": 14, "quantised": ["npu_dynamic_quant",
 * ...], "threads": 0, "explain": false, "rules": {...}}; an unknown key is an error. */
typedef struct VnPrecheck VnPrecheck;
enum { VN_FORWARD = 0, VN_BACKWARD = 1 };
VN_API VnStatus VnPrecheckOpen(const char* settings_json, VnPrecheck** precheck);
VN_API void VnClosePrecheck(VnPrecheck* precheck);
/* The tables of rules/precheck_calls.json: which APIs are called in a way of their own. */
VN_API const char* VnPrecheckCallRules(void);
/* Two tensors. `device_dtype` is what the device computed in where `device` holds it widened, or NULL. */
typedef struct VnCheckedPair {
  size_t struct_bytes; /* sizeof(VnCheckedPair) of the caller */
  const VnTensor *bench, *device;
  const char* device_dtype;
  int32_t has_float8_inputs;
} VnCheckedPair;
/* One row: every metric of every standard. */
VN_API VnStatus VnPrecheckMetrics(VnPrecheck* precheck, const VnCheckedPair* pair, VnTable** row);
/* A call begins: "Functional.softmax.3" and "softmax". Then its outputs come one by one, and VnPrecheckFinish
 * ends it. */
VN_API VnStatus VnPrecheckBegin(VnPrecheck* precheck, const char* full_name, const char* api);
VN_API VnStatus VnPrecheckTensors(VnPrecheck* precheck, int32_t direction, const VnCheckedPair* pair);
/* Only the share of zeros is judged, and there is no row. */
VN_API VnStatus VnPrecheckDropout(VnPrecheck* precheck, int32_t direction, const VnCheckedPair* pair);
/* Values of Python's bool, int, float or str. */
VN_API VnStatus VnPrecheckPlain(VnPrecheck* precheck, int32_t direction, const char* bench_type,
                                const char* device_type, int32_t are_equal);
/* Two things that cannot be compared; `what` is "type", "dict keys", ... */
VN_API VnStatus VnPrecheckMismatch(VnPrecheck* precheck, int32_t direction, const char* what,
                                   const char* bench, const char* device);
VN_API VnStatus VnPrecheckSkip(VnPrecheck* precheck, int32_t direction, const char* reason);
/* A tensor that the call was given; its range is shown with "explain". */
VN_API VnStatus VnPrecheckInput(VnPrecheck* precheck, const char* name, const VnTensor* tensor);
/* One row: the last one judged, by the names of its columns. */
VN_API VnStatus VnPrecheckRow(VnPrecheck* precheck, VnTable** row);
/* "pass", "warning", "error", "SKIP", or " " when there was nothing. */
VN_API const char* VnPrecheckVerdict(const VnPrecheck* precheck, int32_t direction);
/* The verdict of several; `statuses` are words as above. NULL: one of them is none. */
VN_API const char* VnPrecheckRollUp(const char* const* statuses, size_t num_statuses);
/* Ends the call: what was found as JSON, valid until the next call with this handle. */
VN_API VnStatus VnPrecheckFinish(VnPrecheck* precheck, const char** json, size_t* json_bytes);

/* The command line: what the executable does, with its output and exit codes. */
VN_API int VnMain(int argc, char** argv);

#ifdef __cplusplus
}
#endif

#endif /* VERNIER_C_API_H_ */
