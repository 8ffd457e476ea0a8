// Lists tensors, with statistics when asked for.
#include <fmt/format.h>
#include <fnmatch.h>

#include <numeric>

#include "cli/arguments.h"
#include "cli/interrupt.h"
#include "cli/screen.h"
#include "core/progress.h"
#include "vernier/measure.h"
#include "vernier/read.h"

namespace vernier {
namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  vernier inspect model.safetensors\n"
    "  vernier inspect dump/ --stats --only '*.attn.*'\n"
    "  vernier inspect *.pt --stats --crc -o tensors.csv\n\n"
    "Exit status: 0 everything could be read, 2 something could not (the rest is listed all the same).\n";

struct InspectArgs {
  std::vector<std::string> paths;
  bool stats = false, crc = false;
  std::string only;
  bool json = false, jsonl = false, csv = false;
  ReportArgs report;
  SpeedArgs speed;

  std::unique_ptr<CLI::App> Declare() {
    auto app = NewApp("inspect", "List the tensors under each path: name, dtype, shape, bytes.", kExamples);
    app->add_option("PATH", paths, "tensor file, checkpoint, folder, HDF5 file")
        ->type_name("...")
        ->required();
    app->add_option("--only", only, "only names that match this pattern of * ? and [...]")
        ->type_name("GLOB")
        ->group("Listing");
    app->add_flag("--stats", stats, "min, max, mean, std, norm and counts of NaN, infinities and zeros")
        ->group("Listing");
    app->add_flag("--crc", crc, "CRC-32 of the elements' bytes")->group("Listing");
    report.Declare(*app);
    app->add_flag("--csv", csv, "csv on standard output instead of a table")->group("Report");
    app->add_flag("--json", json, "JSON list, the same way")->group("Report");
    app->add_flag("--jsonl", jsonl, "one JSON object per line, the same way")->group("Report");
    speed.Declare(*app);
    return app;
  }
  bool measures() const { return stats || crc; }
};

// One tensor of one of the paths.
struct Item {
  const Dump* dump;
  std::size_t index;

  const TensorInfo& info() const { return dump->tensors()[index]; }
};

struct InspectRow {
  const Item& item;
  const TensorStats* stats;  // null: not measured
  const Error* error;        // null: it could be read
};

enum class When { kAlways, kOnFile, kWithStats, kWithCrc };  // kOnFile: in reports, not on the screen

struct InspectColumn {
  std::string_view key;
  When when;
  TableColumn::Cut cut;
  Cell (*value)(const InspectRow& row);
};

template <class Value>
Cell Known(const InspectRow& row, const Value& value) {
  return row.item.info().damage ? Cell() : Cell(value(row.item.info()));
}
template <class Value>
Cell Measured(const InspectRow& row, const Value& value) {
  return row.stats ? Cell(value(*row.stats)) : Cell();
}

using R = const InspectRow&;
using T = const TensorInfo&;
using S = const TensorStats&;
using Cut = TableColumn::Cut;

// clang-format off
constexpr InspectColumn kColumns[] = {
    {"name",  When::kAlways, Cut::kMiddle, [](R r) { return Cell(r.item.info().name); }},
    {"file",  When::kOnFile, Cut::kMiddle, [](R r) { return Cell(r.item.dump->FileOf(r.item.index).string()); }},
    {"dtype", When::kAlways, Cut::kNever,  [](R r) { return Known(r, [](T t) { return std::string(Name(t.dtype)); }); }},
    {"shape", When::kAlways, Cut::kMiddle, [](R r) { return Known(r, [](T t) { return ShapeText(t.shape); }); }},
    {"bytes", When::kAlways, Cut::kNever,  [](R r) { return Known(r, [](T t) { return t.num_bytes(); }); }},
    {"min",   When::kWithStats, Cut::kNever, [](R r) { return Measured(r, [](S s) { return s.Min(); }); }},
    {"max",   When::kWithStats, Cut::kNever, [](R r) { return Measured(r, [](S s) { return s.Max(); }); }},
    {"mean",  When::kWithStats, Cut::kNever, [](R r) { return Measured(r, [](S s) { return s.Mean(); }); }},
    {"std",   When::kWithStats, Cut::kNever, [](R r) { return Measured(r, [](S s) { return s.Std(); }); }},
    {"norm",  When::kWithStats, Cut::kNever, [](R r) { return Measured(r, [](S s) { return s.Norm(); }); }},
    {"nan",   When::kWithStats, Cut::kNever, [](R r) { return Measured(r, [](S s) { return s.num_nan; }); }},
    {"inf",   When::kWithStats, Cut::kNever, [](R r) { return Measured(r, [](S s) { return s.num_pos_inf + s.num_neg_inf; }); }},
    {"zeros", When::kWithStats, Cut::kNever, [](R r) { return Measured(r, [](S s) { return s.num_zero; }); }},
    {"crc32", When::kWithCrc, Cut::kNever, [](R r) { return Measured(r, [](S s) { return fmt::format("{:08x}", s.crc32); }); }},
    {"error", When::kAlways, Cut::kEnd,    [](R r) { return r.error ? Cell(r.error->Message()) : Cell(); }},
};
// clang-format on

std::vector<const InspectColumn*> ColumnsFor(const InspectArgs& args, bool on_screen) {
  std::vector<const InspectColumn*> columns;
  for (const InspectColumn& column : kColumns) {
    const bool wanted[] = {true, !on_screen, args.stats, args.crc};  // in the order of When
    if (wanted[static_cast<std::size_t>(column.when)]) columns.push_back(&column);
  }
  return columns;
}

std::vector<Cell> CellsOf(const std::vector<const InspectColumn*>& columns, const InspectRow& row) {
  std::vector<Cell> cells;
  cells.reserve(columns.size());
  for (const InspectColumn* column : columns) cells.push_back(column->value(row));
  return cells;
}

class Inspection {
 public:
  static Result<Inspection> Create(const InspectArgs& args) {
    Inspection inspection(args);
    inspection.report_columns_ = ColumnsFor(args, false);
    inspection.screen_columns_ = ColumnsFor(args, true);
    std::vector<std::string> keys;
    for (const InspectColumn* column : inspection.report_columns_) keys.emplace_back(column->key);
    VN_ASSIGN_OR_RETURN(inspection.reports_, CreateReports(args.report, keys));
    constexpr std::string_view kFormats[] = {"csv", "json", "jsonl"};
    const bool asked[] = {args.csv, args.json, args.jsonl};
    for (std::size_t i = 0; i < std::size(kFormats); ++i) {
      if (!asked[i]) continue;
      VN_ASSIGN_OR_RETURN(ReportFile report, ReportFile::Create("-", std::string(kFormats[i]), keys));
      inspection.reports_.push_back(std::move(report));
    }
    for (const ReportFile& report : inspection.reports_) inspection.stdout_is_taken_ |= report.is_stdout();
    return inspection;
  }

  // Paths that hold no dump at all are told on the spot; the others go on.
  void Open() {
    for (const std::string& path : args_->paths) {
      Result<Dump> dump = Dump::Open(path, {args_->speed.num_threads});
      if (!dump) {
        Complain(dump.error());
        ++num_missing_;
      } else {
        dumps_.push_back(*std::move(dump));
      }
    }
    for (const Dump& dump : dumps_) {
      for (std::size_t i = 0; i < dump.tensors().size(); ++i) {
        const std::string& name = dump.tensors()[i].name;
        if (args_->only.empty() || fnmatch(args_->only.c_str(), name.c_str(), 0) == 0)
          items_.push_back({&dump, i});
      }
    }
  }

  Result<Done> Run(Interrupt& interrupt) {
    if (!args_->measures()) {
      for (const Item& item : items_) {
        VN_RETURN_IF_ERROR(Add({item, nullptr, item.info().damage ? &*item.info().damage : nullptr}));
        if (interrupt.interrupted()) return Done{};
      }
      return Done{};
    }
    StatsOptions options;
    options.crc32 = args_->crc;
    options.num_threads = args_->speed.num_threads;
    Progress progress(stderr, args_->speed.quiet ? ProgressStyle::kQuiet : ProgressStyle::kAuto, "inspect",
                      items_.size(), NumBytesOf(items_));
    BatchHooks hooks;
    hooks.stop = interrupt.token();
    hooks.on_progress = [&](const MeasureProgress& done) {
      progress.Update(done.items_done, done.bytes_done);
    };
    Result<Done> written = Done{};
    const auto load = [this](std::size_t i) { return items_[i].dump->Load(items_[i].index); };
    const auto add = [&](std::size_t i, const Result<TensorStats>& stats) {
      if (!written || (!stats && stats.error().code == ErrorCode::kCancelled)) return;
      written = Add({items_[i], stats ? &*stats : nullptr, stats ? nullptr : &stats.error()});
      if (!written) interrupt.RequestStop();
    };
    MeasureTensors(items_.size(), load, options, add, hooks);
    return written;
  }

  Result<Done> Finish() {
    for (ReportFile& report : reports_) VN_RETURN_IF_ERROR(report.Finish());
    std::FILE* stream = stdout_is_taken_ ? stderr : stdout;
    if (!args_->speed.quiet && !stdout_is_taken_) Say(stream, TableTextOf());
    if (!args_->speed.quiet && (!stdout_is_taken_ || any_error())) Say(stream, SummaryText());
    for (const ReportFile& report : reports_) {
      if (!report.is_stdout()) Say(stream, "wrote " + report.name() + "\n");
    }
    return Done{};
  }

  bool any_error() const { return num_errors_ + num_missing_ > 0; }

 private:
  explicit Inspection(const InspectArgs& args) : args_(&args) {}

  static std::uint64_t NumBytesOf(std::span<const Item> items) {
    return std::accumulate(items.begin(), items.end(), std::uint64_t{0},
                           [](std::uint64_t sum, const Item& item) { return sum + item.info().num_bytes(); });
  }

  Result<Done> Add(const InspectRow& row) {
    num_errors_ += row.error != nullptr;
    if (!reports_.empty()) {
      const std::vector<Cell> cells = CellsOf(report_columns_, row);
      const RowColour colour = row.error ? RowColour::kRed : RowColour::kNone;
      for (ReportFile& report : reports_) VN_RETURN_IF_ERROR(report.Write(cells, colour));
    }
    if (!stdout_is_taken_ && !args_->speed.quiet) {
      rows_.push_back({CellsOf(screen_columns_, row), row.error ? RowColour::kRed : RowColour::kNone});
    }
    return Done{};
  }

  std::string TableTextOf() {
    if (rows_.empty()) return "";
    std::vector<TableColumn> columns;
    for (const InspectColumn* column : screen_columns_)
      columns.push_back({std::string(column->key), column->cut});
    if (num_errors_ == 0) {  // an empty column would only push the others together
      columns.pop_back();
      for (TableRow& row : rows_) row.cells.pop_back();
    }
    TableOptions options;
    options.width = ScreenWidth(stdout);
    options.colour = UseColour(stdout);
    return RenderTable(columns, rows_, options) + "\n";
  }

  std::string SummaryText() const {
    const std::uint64_t num_bad = num_errors_ + num_missing_;
    const std::string errors = num_bad > 0 ? fmt::format("; {} could not be read", num_bad) : "";
    return fmt::format("{} tensor{}, {}{}\n", items_.size(), items_.size() == 1 ? "" : "s",
                       SizeText(NumBytesOf(items_)), errors);
  }

  const InspectArgs* args_;
  std::vector<const InspectColumn*> report_columns_, screen_columns_;
  std::vector<ReportFile> reports_;
  bool stdout_is_taken_ = false;
  std::vector<Dump> dumps_;
  std::vector<Item> items_;
  std::vector<TableRow> rows_;
  std::uint64_t num_errors_ = 0;   // tensors
  std::uint64_t num_missing_ = 0;  // paths
};

Result<ExitCode> Inspect(const InspectArgs& args, Interrupt& interrupt) {
  VN_ASSIGN_OR_RETURN(Inspection inspection, Inspection::Create(args));
  inspection.Open();
  VN_RETURN_IF_ERROR(inspection.Run(interrupt));
  if (interrupt.interrupted()) return ExitCode::kInterrupted;
  VN_RETURN_IF_ERROR(inspection.Finish());
  return inspection.any_error() ? ExitCode::kCannotTell : ExitCode::kSame;
}

}  // namespace

std::string HelpInspect() {
  InspectArgs args;
  return HelpText(*args.Declare());
}

ExitCode RunInspect(const Args& words) {
  InspectArgs args;
  const auto app = args.Declare();
  if (const auto code = Parse(*app, words)) return *code;
  Interrupt interrupt;
  const Result<ExitCode> code = Inspect(args, interrupt);
  if (interrupt.interrupted()) return ExitCode::kInterrupted;
  return code ? *code : Complain(code.error());
}

}  // namespace vernier
