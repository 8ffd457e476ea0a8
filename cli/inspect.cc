// Lists tensors, with statistics when asked for.
#include <fmt/format.h>
#include <fnmatch.h>

#include <numeric>

#include "cli/arguments.h"
#include "cli/interrupt.h"
#include "cli/screen.h"
#include "core/progress.h"
#include "core/text.h"
#include "report/result_reports.h"
#include "vernier/compare.h"
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
  bool stats = false, crc = false, nan = false;
  std::string only;
  bool json = false, jsonl = false, csv = false;
  ReportArgs report;
  SpeedArgs speed;

  std::unique_ptr<CLI::App> Declare() {
    auto app = NewApp("inspect", "List the tensors under each path, or the rows of a recording.", kExamples);
    app->add_option("PATH", paths, "tensor file, checkpoint, folder, HDF5 file; or one recording")
        ->type_name("...")
        ->required();
    app->add_option("--only", only, "only names that match this pattern of * ? and [...]")
        ->type_name("GLOB")
        ->group("Listing");
    app->add_flag("--stats", stats, "min, max, mean, std, norm and counts of NaN, infinities and zeros")
        ->group("Listing");
    app->add_flag("--nan", nan,
                  "the calls of a recording that make NaN or infinities or are given them from outside; "
                  "status 1: some are")
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
  Cell (*value)(const InspectRow& row, TextArena& arena);
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
using A = TextArena&;
using T = const TensorInfo&;
using S = const TensorStats&;
using Cut = TableColumn::Cut;

// clang-format off
constexpr InspectColumn kColumns[] = {
    {"name",  When::kAlways, Cut::kMiddle, [](R r, A) { return Cell(r.item.info().name); }},
    {"file",  When::kOnFile, Cut::kMiddle, [](R r, A a) { return Cell(a.Keep(r.item.dump->FileOf(r.item.index).string())); }},
    {"dtype", When::kAlways, Cut::kNever,  [](R r, A) { return Known(r, [](T t) { return Name(t.dtype); }); }},
    {"shape", When::kAlways, Cut::kMiddle, [](R r, A a) { return Known(r, [&a](T t) { return a.Keep(ShapeText(t.shape)); }); }},
    {"bytes", When::kAlways, Cut::kNever,  [](R r, A) { return Known(r, [](T t) { return t.num_bytes(); }); }},
    {"min",   When::kWithStats, Cut::kNever, [](R r, A) { return Measured(r, [](S s) { return s.Min(); }); }},
    {"max",   When::kWithStats, Cut::kNever, [](R r, A) { return Measured(r, [](S s) { return s.Max(); }); }},
    {"mean",  When::kWithStats, Cut::kNever, [](R r, A) { return Measured(r, [](S s) { return s.Mean(); }); }},
    {"std",   When::kWithStats, Cut::kNever, [](R r, A) { return Measured(r, [](S s) { return s.Std(); }); }},
    {"norm",  When::kWithStats, Cut::kNever, [](R r, A) { return Measured(r, [](S s) { return s.Norm(); }); }},
    {"nan",   When::kWithStats, Cut::kNever, [](R r, A) { return Measured(r, [](S s) { return s.num_nan; }); }},
    {"inf",   When::kWithStats, Cut::kNever, [](R r, A) { return Measured(r, [](S s) { return s.num_pos_inf + s.num_neg_inf; }); }},
    {"zeros", When::kWithStats, Cut::kNever, [](R r, A) { return Measured(r, [](S s) { return s.num_zero; }); }},
    {"crc32", When::kWithCrc, Cut::kNever, [](R r, A a) { return Measured(r, [&a](S s) { return a.Keep(fmt::format("{:08x}", s.crc32)); }); }},
    {"error", When::kAlways, Cut::kEnd,    [](R r, A a) { return r.error ? Cell(a.Keep(r.error->Message())) : Cell(); }},
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

// The reports that were asked for, and whether one of them is standard output.
struct Reports {
  std::vector<OutputFile> files;
  bool take_stdout = false;

  static Result<Reports> Of(const InspectArgs& args) {
    Reports reports;
    const auto add = [&](const std::string& output, const std::string& format) -> Result<Done> {
      VN_ASSIGN_OR_RETURN(OutputFile file, OutputFileOf(output, format));
      reports.take_stdout = reports.take_stdout || file.path == "/dev/stdout";
      reports.files.push_back(std::move(file));
      return Done{};
    };
    for (const std::string& output : args.report.outputs) VN_RETURN_IF_ERROR(add(output, args.report.format));
    const std::pair<bool, std::string> asked[] = {
        {args.csv, "csv"}, {args.json, "json"}, {args.jsonl, "jsonl"}};
    for (const auto& [wanted, format] : asked) {
      if (wanted) VN_RETURN_IF_ERROR(add("-", format));
    }
    return reports;
  }

  Result<ResultReports> Create(const std::vector<std::string>& columns) const {
    ResultReports::Options options;
    options.files = files;
    for (const std::string& column : columns) options.columns.push_back({column});
    return ResultReports::Create(std::move(options));
  }

  void SayWritten(std::FILE* stream) const {
    for (const OutputFile& file : files) {
      if (file.path != "/dev/stdout") Say(stream, "wrote " + file.path.string() + "\n");
    }
  }
};

constexpr std::size_t kRowsOfABatch = 512;

bool IsWanted(const InspectArgs& args, const std::string& name) {
  return args.only.empty() || fnmatch(args.only.c_str(), name.c_str(), 0) == 0;
}

class Inspection {
 public:
  static Result<Inspection> Create(const InspectArgs& args) {
    Inspection inspection(args);
    inspection.report_columns_ = ColumnsFor(args, false);
    inspection.screen_columns_ = ColumnsFor(args, true);
    inspection.pending_ = std::make_unique<ResultBatch>(inspection.report_columns_.size());
    inspection.shown_ = std::make_unique<ResultBatch>(inspection.screen_columns_.size());
    std::vector<std::string> keys;
    for (const InspectColumn* column : inspection.report_columns_) keys.emplace_back(column->key);
    VN_ASSIGN_OR_RETURN(inspection.asked_, Reports::Of(args));
    VN_ASSIGN_OR_RETURN(ResultReports reports, inspection.asked_.Create(keys));
    inspection.reports_ = std::make_unique<ResultReports>(std::move(reports));
    return inspection;
  }

  // Paths that hold no dump at all are told on the spot; the others go on.
  void Open() {
    for (const std::string& path : args_->paths) {
      Result<Dump> dump = Dump::Open(path, {args_->speed.num_threads});
      const bool is_empty = dump && dump->tensors().empty();
      if (!dump || is_empty) {
        Complain(is_empty ? Error{ErrorCode::kNotADump, path, ""} : dump.error());
        ++num_missing_;
      } else {
        dumps_.push_back(*std::move(dump));
      }
    }
    for (const Dump& dump : dumps_) {
      for (std::size_t i = 0; i < dump.tensors().size(); ++i) {
        if (IsWanted(*args_, dump.tensors()[i].name)) items_.push_back({&dump, i});
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
    VN_RETURN_IF_ERROR(WritePending());
    VN_RETURN_IF_ERROR(reports_->Finish());
    std::FILE* stream = asked_.take_stdout ? stderr : stdout;
    if (shows()) Say(stream, TableTextOf());
    if (!args_->speed.quiet && (!asked_.take_stdout || any_error())) Say(stream, SummaryText());
    asked_.SayWritten(stream);
    return Done{};
  }

  bool any_error() const { return num_errors_ + num_missing_ > 0; }

 private:
  explicit Inspection(const InspectArgs& args) : args_(&args) {}

  static std::uint64_t NumBytesOf(std::span<const Item> items) {
    return std::accumulate(items.begin(), items.end(), std::uint64_t{0},
                           [](std::uint64_t sum, const Item& item) { return sum + item.info().num_bytes(); });
  }

  bool shows() const { return !asked_.take_stdout && !args_->speed.quiet; }

  Result<Done> Add(const InspectRow& row) {
    num_errors_ += row.error != nullptr;
    if (shows()) AddTo(*shown_, screen_columns_, row);
    if (asked_.files.empty()) return Done{};
    AddTo(*pending_, report_columns_, row);
    return pending_->rows.size() < kRowsOfABatch ? Result<Done>(Done{}) : WritePending();
  }

  Result<Done> WritePending() {
    VN_RETURN_IF_ERROR(reports_->Render(*pending_));
    VN_RETURN_IF_ERROR(reports_->Take(*pending_));
    const std::uint64_t next = pending_->first_row + pending_->rows.size();
    pending_ = std::make_unique<ResultBatch>(report_columns_.size());
    pending_->first_row = next;
    return Done{};
  }

  static void AddTo(ResultBatch& batch, const std::vector<const InspectColumn*>& columns,
                    const InspectRow& row) {
    for (const InspectColumn* column : columns) batch.rows.cells.push_back(column->value(row, batch.arena));
    batch.rows.colours.push_back(row.error ? RowColour::kRed : RowColour::kNone);
    batch.statuses.push_back(row.error ? Status::kError : Status::kPass);
    batch.severities.push_back(0);
  }

  std::string TableTextOf() {
    if (shown_->rows.size() == 0) return "";
    std::vector<TableColumn> columns;
    for (const InspectColumn* column : screen_columns_)
      columns.push_back({std::string(column->key), column->cut});
    if (num_errors_ == 0) RemoveLastColumn(columns, shown_->rows);  // it would only push the others together
    TableOptions options;
    options.width = ScreenWidth(stdout);
    options.colour = UseColour(stdout);
    return RenderTable(columns, shown_->rows, options) + "\n";
  }

  static void RemoveLastColumn(std::vector<TableColumn>& columns, RowBlock& rows) {
    columns.pop_back();
    RowBlock narrower(columns.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const auto cells = rows.row(i).first(columns.size());
      narrower.cells.insert(narrower.cells.end(), cells.begin(), cells.end());
    }
    narrower.colours = std::move(rows.colours);
    rows = std::move(narrower);
  }

  std::string SummaryText() const {
    const std::uint64_t num_bad = num_errors_ + num_missing_;
    const std::string errors = num_bad > 0 ? fmt::format("; {} could not be read", num_bad) : "";
    return fmt::format("{} tensor{}, {}{}\n", items_.size(), items_.size() == 1 ? "" : "s",
                       SizeText(NumBytesOf(items_)), errors);
  }

  const InspectArgs* args_;
  std::vector<const InspectColumn*> report_columns_, screen_columns_;
  Reports asked_;
  std::unique_ptr<ResultReports> reports_;
  std::vector<Dump> dumps_;
  std::vector<Item> items_;
  std::unique_ptr<ResultBatch> pending_, shown_;  // for the reports, for the screen
  std::uint64_t num_errors_ = 0;                  // tensors
  std::uint64_t num_missing_ = 0;                 // paths
};

std::string HuntText(const RowBlock& rows) {
  if (rows.size() == 0) return "no call makes NaN or infinities, and none comes in from outside\n";
  const auto first = rows.row(0);
  return fmt::format("\n{} to look at; the first: {} {}\n", Plural(rows.size(), "call"),
                     Printable(first[1].text), first[2].text);
}

// A recording: what it says of its rows.
Result<ExitCode> InspectRecording(const InspectArgs& args, const Family& family) {
  if (args.paths.size() > 1)
    return Error{ErrorCode::kBadArgument, args.paths[1], "recordings are listed one at a time"};
  VN_ASSIGN_OR_RETURN(const Listing listing, (args.nan ? family.hunt : family.list)(args.paths[0]));
  ResultBatch batch(listing.columns.size());
  std::vector<bool> used(listing.columns.size());
  for (const KeptCells& row : listing.rows) {
    const auto cells = row.cells();
    if (!IsWanted(args, std::string(cells[1].text))) continue;
    for (std::size_t i = 0; i < cells.size(); ++i) used[i] = used[i] || cells[i].kind != Cell::Kind::kNone;
    batch.rows.cells.insert(batch.rows.cells.end(), cells.begin(), cells.end());
    batch.rows.colours.push_back(RowColour::kNone);
    batch.statuses.push_back(Status::kPass);
    batch.severities.push_back(0);
  }
  VN_ASSIGN_OR_RETURN(const Reports asked, Reports::Of(args));
  VN_ASSIGN_OR_RETURN(ResultReports reports, asked.Create(listing.columns));
  VN_RETURN_IF_ERROR(reports.Render(batch));
  VN_RETURN_IF_ERROR(reports.Take(batch));
  VN_RETURN_IF_ERROR(reports.Finish());
  std::FILE* stream = asked.take_stdout ? stderr : stdout;
  if (!args.speed.quiet && !asked.take_stdout) {
    std::vector<TableColumn> columns;
    for (std::size_t i = 0; i < used.size(); ++i) {
      if (used[i]) columns.push_back({listing.columns[i], i == 1 ? Cut::kMiddle : Cut::kNever});
    }
    RowBlock shown(columns.size());
    for (std::size_t i = 0; i < batch.rows.cells.size(); ++i) {
      if (used[i % used.size()]) shown.cells.push_back(batch.rows.cells[i]);
    }
    shown.colours = batch.rows.colours;
    Say(stream, RenderTable(columns, shown, {ScreenWidth(stdout), UseColour(stdout), {}}) +
                    (args.nan ? HuntText(batch.rows) : fmt::format("\n{} rows\n", batch.rows.size())));
  }
  asked.SayWritten(stream);
  return args.nan && batch.rows.size() > 0 ? ExitCode::kDiffers : ExitCode::kSame;
}

Result<ExitCode> Inspect(const InspectArgs& args, Interrupt& interrupt) {
  // What --stats asks for is in the files of a recording, which are tensors like others.
  const Family* family = args.measures() ? nullptr : FamilyOf(args.paths[0]);
  std::error_code unknown;
  if (args.nan && !std::filesystem::exists(args.paths[0], unknown))
    return Error{ErrorCode::kNotFound, args.paths[0], ""};
  if (args.nan && (family == nullptr || family->hunt == nullptr)) {
    return Error{
        ErrorCode::kBadArgument, args.paths[0],
        "--nan needs a recording that knows calls (dump.json); --stats counts NaN and infinities of tensors"};
  }
  if (family != nullptr && family->list != nullptr) return InspectRecording(args, *family);
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
