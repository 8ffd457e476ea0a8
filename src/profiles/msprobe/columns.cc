#include "profiles/msprobe/columns.h"

#include "core/python_text.h"
#include "profiles/msprobe/estimates.h"

namespace vernier::msprobe {
namespace {

enum ModeSet : std::uint8_t { kRealOnly = 1, kStatOnly = 2, kMd5Only = 4, kWithNumbers = 3, kAllModes = 7 };
enum GenerationSet : std::uint8_t { kClassicOnly = 1, kCurrentOnly = 2, kBoth = 3 };

template <std::size_t kIndex>
Cell Metric(const ResultRow& row, TextArena&) {
  return row.metrics[kIndex];
}
template <std::size_t kIndex>
Cell NpuStatistic(const ResultRow& row, TextArena&) {
  return row.npu.statistics[kIndex];
}
template <std::size_t kIndex>
Cell BenchStatistic(const ResultRow& row, TextArena&) {
  return row.bench.statistics[kIndex];
}
Cell Verdict(const ResultRow& row, TextArena&) { return Cell(row.result); }
Cell Message(const ResultRow& row, TextArena&) { return Cell(row.message); }

Cell Measured(const ResultRow& row, TextArena& arena) {
  return Cell::Json(row.measures   ? arena.Keep(MeasuredJson(*row.measures))
                    : row.estimate ? arena.Keep(EstimateJson(*row.estimate))
                                   : std::string_view());
}

Cell ErrorEstimate(const ResultRow& row, TextArena&) {
  if (!row.sketch_problem.empty()) return Cell(row.sketch_problem);
  return row.estimate ? Cell(ShownError(row.estimate->relative_error)) : Cell();
}
Cell CosineEstimate(const ResultRow& row, TextArena&) {
  return row.estimate ? Cell(ShownCosine(row.estimate->cosine)) : Cell();
}

struct TableColumn {
  std::uint8_t modes, generations;
  bool stack_only;
  Column column;
};

// clang-format off
constexpr TableColumn kColumns[] = {
    {kAllModes, kBoth, false, {"NPU Name", [](const ResultRow& r, TextArena&) { return Cell(r.npu_name); }, "the row's name on the NPU side"}},
    {kAllModes, kBoth, false, {"Bench Name", [](const ResultRow& r, TextArena&) { return Cell(r.bench_name); }, "its partner's name; N/A when it found none"}},
    {kAllModes, kBoth, false, {"NPU Dtype", [](const ResultRow& r, TextArena&) { return Cell(r.npu.dtype); }, "element type, or the kind of a value that is no tensor"}},
    {kAllModes, kBoth, false, {"Bench Dtype", [](const ResultRow& r, TextArena&) { return Cell(r.bench.dtype); }, "the same of the bench side"}},
    {kAllModes, kBoth, false, {"NPU Tensor Shape", [](const ResultRow& r, TextArena&) { return Cell(r.npu.shape); }, "recorded shape"}},
    {kAllModes, kBoth, false, {"Bench Tensor Shape", [](const ResultRow& r, TextArena&) { return Cell(r.bench.shape); }, "the same of the bench side"}},
    {kAllModes, kBoth, false, {"NPU Requires_grad", [](const ResultRow& r, TextArena&) { return Cell(r.npu.requires_grad); }, "True, False, or N/A when not recorded"}},
    {kAllModes, kBoth, false, {"Bench Requires_grad", [](const ResultRow& r, TextArena&) { return Cell(r.bench.requires_grad); }, "the same of the bench side"}},
    {kMd5Only, kBoth, false, {"NPU MD5", [](const ResultRow& r, TextArena&) { return Cell(r.npu.md5); }, "CRC-32 of the data, or of the value's text"}},
    {kMd5Only, kBoth, false, {"BENCH MD5", [](const ResultRow& r, TextArena&) { return Cell(r.bench.md5); }, "the same of the bench side"}},
    {kRealOnly, kBoth, false, {"Cosine", Metric<kCosine>, "n.b / (|n| |b|), 12 decimals, 6 above 0.9999"}},
    {kRealOnly, kBoth, false, {"EucDist", Metric<kEucDist>, "sqrt(sum of (n - b)^2)"}},
    {kRealOnly, kBoth, false, {"MaxAbsErr", Metric<kMaxAbsErr>, "largest |n - b|, 12 decimals"}},
    {kRealOnly, kBoth, false, {"MaxRelativeErr", Metric<kMaxRelativeErr>, "largest |(n - b) / b|, 12 decimals; an epsilon is added to both where b = 0"}},
    {kRealOnly, kBoth, false, {"One Thousandth Err Ratio", Metric<kOneThousandth>, "share of elements whose relative error is below 0.001"}},
    {kRealOnly, kBoth, false, {"Five Thousandths Err Ratio", Metric<kFiveThousandths>, "share of elements whose relative error is below 0.005"}},
    {kStatOnly, kBoth, false, {"Max diff", Metric<0>, "NPU max - Bench max"}},
    {kStatOnly, kBoth, false, {"Min diff", Metric<1>, "NPU min - Bench min"}},
    {kStatOnly, kBoth, false, {"Mean diff", Metric<2>, "NPU mean - Bench mean"}},
    {kStatOnly, kBoth, false, {"L2norm diff", Metric<3>, "NPU l2norm - Bench l2norm"}},
    {kStatOnly, kBoth, false, {"MaxRelativeErr", Metric<4>, "|Max diff / Bench max| in percent"}},
    {kStatOnly, kBoth, false, {"MinRelativeErr", Metric<5>, "|Min diff / Bench min| in percent"}},
    {kStatOnly, kBoth, false, {"MeanRelativeErr", Metric<6>, "|Mean diff / Bench mean| in percent"}},
    {kStatOnly, kBoth, false, {"NormRelativeErr", Metric<7>, "|L2norm diff / Bench l2norm| in percent"}},
    {kWithNumbers, kBoth, false, {"NPU max", NpuStatistic<0>, "recorded maximum, or the value itself"}},
    {kWithNumbers, kBoth, false, {"NPU min", NpuStatistic<1>, "recorded minimum"}},
    {kWithNumbers, kBoth, false, {"NPU mean", NpuStatistic<2>, "recorded mean"}},
    {kWithNumbers, kBoth, false, {"NPU l2norm", NpuStatistic<3>, "recorded 2-norm"}},
    {kWithNumbers, kBoth, false, {"Bench max", BenchStatistic<0>, "the same of the bench side"}},
    {kWithNumbers, kBoth, false, {"Bench min", BenchStatistic<1>, "the same of the bench side"}},
    {kWithNumbers, kBoth, false, {"Bench mean", BenchStatistic<2>, "the same of the bench side"}},
    {kWithNumbers, kBoth, false, {"Bench l2norm", BenchStatistic<3>, "the same of the bench side"}},
    {kAllModes, kBoth, false, {"Requires_grad Consistent", [](const ResultRow& r, TextArena&) { return Cell(r.grad_consistent); }, "whether both Requires_grad texts are equal"}},
    {kRealOnly, kClassicOnly, false, {"Accuracy Reached or Not", Verdict, "No: Cosine < 0.99 and MaxAbsErr > 0.001, or Cosine < 0.9, or MaxAbsErr > 1"}},
    {kRealOnly, kCurrentOnly, false, {"Result", Verdict, "pass, warning or error: the worst message"}},
    {kStatOnly | kMd5Only, kBoth, false, {"Result", Verdict, "classic: Warning (statistics), pass or Different (MD5); current: pass, warning or error"}},
    {kWithNumbers, kBoth, false, {"Err_message", Message, "why; in the current generation a JSON list"}},
    {kMd5Only, kCurrentOnly, false, {"Err_message", Message, "why, as a JSON list"}},
    {kAllModes, kBoth, true, {"NPU_Stack_Info", [](const ResultRow& r, TextArena&) { return Cell(r.stack); }, "call stack, on the first row of a record"}},
    {kRealOnly, kBoth, false, {"Data_name", [](const ResultRow& r, TextArena&) { return Cell(r.data_name); }, "the two data files"}},
};
constexpr Column kEstimateColumns[] = {
    {"Error estimate", ErrorEstimate, "|n - b| / |b| from the sketches of both dumps, to about 9 % with 64 sums"},
    {"Cosine estimate", CosineEstimate, "n.b / (|n| |b|) from the sketches and norms of both dumps"},
};
// clang-format on

}  // namespace

std::span<const Column> EstimateColumns() { return kEstimateColumns; }

std::vector<Column> ColumnsOf(Generation generation, Mode mode, bool with_stack, bool with_measured,
                              bool with_estimates) {
  const unsigned mode_bit = 1u << static_cast<unsigned>(mode),
                 generation_bit = 1u << static_cast<unsigned>(generation);
  std::vector<Column> columns;
  for (const TableColumn& entry : kColumns) {
    if ((entry.modes & mode_bit) && (entry.generations & generation_bit) &&
        (with_stack || !entry.stack_only)) {
      columns.push_back(entry.column);
    }
  }
  if (with_estimates && mode != Mode::kReal) {
    columns.insert(columns.end(), std::begin(kEstimateColumns), std::end(kEstimateColumns));
  }
  if (with_measured) columns.push_back({"measured", Measured, "everything measured of the two files"});
  return columns;
}

TableStyle StyleOf(bool coloured) {
  TableStyle style;
  style.marks_formulas = false;
  style.before_infinity = " ";
  style.max_rows_of_a_csv = kMaxCsvRows;
  style.plain_sheets = true;
  style.colours = coloured ? TableStyle::Colours::kBright : TableStyle::Colours::kNone;
  style.bools_as_texts = coloured;
  style.behind_infinity = coloured ? "\t" : "";
  style.cut_note = "";
  style.only_sheet = coloured ? "Sheet" : "Sheet1";
  style.sheets = "part_";
  style.first_sheet_number = 0;
  style.max_rows_of_a_sheet = kMaxSheetRows;
  return style;
}

bool IsForbidden(const Cell& cell) {
  const bool is_text = cell.kind == Cell::Kind::kText || cell.kind == Cell::Kind::kShown;
  return is_text && IsDangerous(cell.text) && !ParsePythonFloat(cell.text);
}

}  // namespace vernier::msprobe
