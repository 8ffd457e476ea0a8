#include "profiles/msprobe/merge.h"

#include <algorithm>
#include <cmath>
#include <regex>
#include <set>
#include <unordered_map>

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include "core/paths.h"
#include "format/table_file.h"
#include "format/xlsx.h"
#include "profiles/msprobe/columns.h"
#include "profiles/msprobe/settings.h"
#include "profiles/output_files.h"

namespace vernier::msprobe {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kConsistent = "Requires_grad Consistent";

struct Config {
  std::vector<std::string> apis, indexes;  // indexes empty: all of the mode
};

struct ResultFile {
  int rank = 0;
  std::string name;
};

using RankValues =
    std::unordered_map<std::string, std::vector<TableCell>>;  // NPU name -> one cell for each index

struct MergedRank {
  int rank = 0;
  RankValues values;
};

std::vector<std::string> Texts(const YAML::Node& node) {
  std::vector<std::string> texts;
  for (const auto& entry : node) texts.push_back(entry.as<std::string>());
  return texts;
}

Outcome<Config> ReadConfig(const fs::path& path, Log& log) {
  if (!Exists(path)) return RunFailure(log, fmt::format("The file path {} does not exist.", path.string()));
  Config config;
  try {  // yaml-cpp throws
    const YAML::Node root = YAML::LoadFile(path.string());
    if (!root || root.IsNull()) return RunFailure(log, "config.yaml is empty, please check.");
    const YAML::Node api = root.IsMap() ? root["api"] : YAML::Node();
    if (!api || api.IsNull() || (api.IsSequence() && api.size() == 0)) {
      return RunFailure(log, "The APIs required to merge data were not found.");
    }
    if (!api.IsSequence()) return RunFailure(log, "The config format of 'api' is incorrect, please check.");
    const YAML::Node index = root["compare_index"];
    if (index && !index.IsNull() && !index.IsSequence()) {
      return RunFailure(log, "The config format of 'compare_index' is incorrect, please check.");
    }
    config.apis = Texts(api);
    if (index && index.IsSequence()) config.indexes = Texts(index);
  } catch (const std::exception&) {
    return RunFailure(log,
                      fmt::format("The yaml file failed to load. Please check the path: {}.", path.string()));
  }
  return config;
}

// The k of compare_result_rank<k>[-rank<k>]_<14 digits>[_<n>]; -1 for a single rank, nothing for another
// name.
std::optional<int> RankOfName(const std::string& stem) {
  static const std::regex form("compare_result_rank([0-9]{0,9})(-rank[0-9]{0,9})?_[0-9]{14}(_[0-9]{1,9})?");
  std::smatch found;
  if (!std::regex_match(stem, found, form)) return std::nullopt;
  return found[1].length() == 0 ? -1 : std::stoi(found[1]);
}

Outcome<std::vector<ResultFile>> FindResults(const fs::path& input, Log& log) {
  std::vector<ResultFile> xlsx, csv;
  for (const std::string& name : NamesIn(input)) {
    const std::string extension = fs::path(name).extension().string();
    const std::optional<int> rank = RankOfName(fs::path(name).stem().string());
    if (extension == ".csv" && rank && *rank >= 0) csv.push_back({*rank, name});
    if (extension != ".xlsx") continue;
    if (!rank) return RunFailure(log, fmt::format("Wrong compare result name: {}, please check!", name));
    if (*rank < 0) {
      log.Warning("Single rank compare result do not need to be merged.");
    } else {
      xlsx.push_back({*rank, name});
    }
  }
  std::vector<ResultFile>& files = xlsx.empty() ? csv : xlsx;
  std::stable_sort(files.begin(), files.end(),
                   [](const ResultFile& a, const ResultFile& b) { return a.rank < b.rank; });
  if (files.size() > 1) return files;
  log.Warning("Number of compare result is no more than 1, no need to merge.");
  return Failure(Failure::Ends::kRun, "nothing to merge");
}

std::vector<std::string> Headings(Generation generation, Mode mode, bool with_stack) {
  std::vector<std::string> headings;
  for (const Column& column : ColumnsOf(generation, mode, with_stack)) headings.emplace_back(column.heading);
  return headings;
}

// The mode whose columns these are, exactly; columns of our own may follow.
std::optional<Mode> ModeOfHeader(std::vector<std::string> header) {
  const auto is_ours = [](const std::string& heading) {
    return std::any_of(EstimateColumns().begin(), EstimateColumns().end(),
                       [&](const Column& column) { return column.heading == heading; });
  };
  while (!header.empty() && is_ours(header.back())) header.pop_back();
  for (const Mode mode : {Mode::kReal, Mode::kStatistics, Mode::kMd5}) {
    for (const Generation generation : {Generation::kClassic, Generation::kCurrent}) {
      for (const bool with_stack : {false, true}) {
        if (Headings(generation, mode, with_stack) == header) return mode;
      }
    }
  }
  return std::nullopt;
}

std::vector<std::string> IndexesOf(Mode mode) {
  const std::vector<std::string> headings = Headings(Generation::kClassic, mode, false);
  const auto first = std::find(headings.begin(), headings.end(), mode == Mode::kReal ? "Cosine" : "Max diff");
  std::vector<std::string> indexes(first, std::find(headings.begin(), headings.end(), "NPU max"));
  indexes.emplace_back(kConsistent);
  return indexes;
}

// Reads one result file into the rows that are asked for.
class FileMerger {
 public:
  FileMerger(const Config& config, std::vector<std::string>& indexes, std::vector<std::string>& names,
             Log& log)
      : config_(config), indexes_(indexes), names_(names), log_(log) {}

  // Nothing: the file is not usable, as the log tells.
  Outcome<std::optional<MergedRank>> Read(const fs::path& path, int rank) {
    rank_ = rank;
    std::vector<std::vector<TableCell>> rows;
    std::vector<std::string> header;
    bool usable = true;
    const Result<Done> read = ReadTable(path, [&](std::span<const TableCell> cells) {
      std::vector<std::string> texts;
      if (header.empty() || (!cells.empty() && cells[0].text == header[0])) {
        for (const TableCell& cell : cells) texts.push_back(cell.text);
        if (header.empty()) usable = UseHeader(header = texts);
        return usable;
      }
      rows.emplace_back(cells.begin(), cells.end());
      rows.back().resize(header.size());
      return true;
    });
    if (!read) return RunFailure(log_, read.error().Message());
    if (header.empty()) usable = UseHeader(header);
    if (!usable) return std::optional<MergedRank>();
    if (rows.empty()) {
      log_.Warning(fmt::format("Rank{} compare result is empty and will not shown in merged result.", rank));
      return std::optional<MergedRank>();
    }
    return std::optional<MergedRank>(Collect(header, rows));
  }

 private:
  bool UseHeader(const std::vector<std::string>& header) {
    constexpr std::string_view kNotShown = "The compare result will not be shown in merged result.";
    const std::optional<Mode> mode = ModeOfHeader(header);
    if (!mode) {
      log_.Warning(
          fmt::format("A valid dump task can not be identified from rank{} compare result, please check! {}",
                      rank_, kNotShown));
      return false;
    }
    if (*mode == Mode::kMd5) {
      log_.Warning(fmt::format(
          "Rank{} compare result is 'md5' dump task and does not support merging result, please check! {}",
          rank_, kNotShown));
      return false;
    }
    const std::vector<std::string> allowed = IndexesOf(*mode);
    const std::vector<std::string>& wanted =
        config_.indexes.empty() ? (indexes_.empty() ? allowed : indexes_) : config_.indexes;
    std::string invalid;
    for (const std::string& index : wanted) {
      if (std::find(allowed.begin(), allowed.end(), index) == allowed.end())
        invalid += (invalid.empty() ? "'" : ", '") + index + "'";
    }
    if (!invalid.empty()) {
      log_.Warning(
          fmt::format("Compare indexes in rank{} compare result are not consistent with those in other "
                      "compare results, please check!",
                      rank_));
      log_.Warning(kNotShown);
      log_.Warning(fmt::format("The invalid compare indexes: {{{}}}", invalid));
      return false;
    }
    if (indexes_.empty()) {
      for (const std::string& index : allowed) {
        if (std::find(wanted.begin(), wanted.end(), index) != wanted.end()) chosen_.push_back(index);
      }
      indexes_ = config_.indexes.empty() ? chosen_ : config_.indexes;
    }
    return true;
  }

  MergedRank Collect(const std::vector<std::string>& header,
                     const std::vector<std::vector<TableCell>>& rows) {
    const auto column = [&](std::string_view heading) {
      return static_cast<std::size_t>(std::find(header.begin(), header.end(), heading) - header.begin());
    };
    const std::size_t npu_max = column("NPU max"), bench_max = column("Bench max");
    MergedRank merged{rank_, {}};
    for (const std::string& api : config_.apis) {
      bool found = false;
      for (const std::vector<TableCell>& row : rows) {
        const std::string& name = row[0].text;
        if (name.find(api + '.') == std::string::npos) continue;
        found = true;
        const auto [entry, is_new] = merged.values.try_emplace(name);
        if (!is_new) continue;
        if (seen_.insert(name).second) names_.push_back(name);
        for (const std::string& index : indexes_) {
          entry->second.push_back(CellFor(row[column(index)], row[npu_max], row[bench_max]));
        }
      }
      if (!found) log_.Warning(fmt::format("{} not found in rank{} compare result.", api, rank_));
    }
    return merged;
  }

  // Where a metric has no number, the two maxima say more.
  static TableCell CellFor(const TableCell& cell, const TableCell& npu, const TableCell& bench) {
    if (cell.text != "N/A" && cell.text != "unsupported" && cell.text != "Nan") return cell;
    return {TableCell::Kind::kText, fmt::format("NPU:{}  Bench:{}", npu.text, bench.text)};
  }

  const Config& config_;
  std::vector<std::string>& indexes_;
  std::vector<std::string>& names_;
  Log& log_;
  int rank_ = 0;
  std::vector<std::string> chosen_;
  std::set<std::string> seen_;
};

void AppendCell(std::uint32_t line, std::uint32_t column, const TableCell& cell, std::string& xml) {
  switch (cell.kind) {
    case TableCell::Kind::kEmpty:
      break;
    case TableCell::Kind::kText:
      AppendXlsxText(line, column, cell.text, XlsxFill::kNone, xml);
      break;
    case TableCell::Kind::kBool:
      AppendXlsxBool(line, column, cell.text == "True", XlsxFill::kNone, xml);
      break;
    case TableCell::Kind::kNumber: {
      const double number = std::strtod(cell.text.c_str(), nullptr);
      if (std::isfinite(number)) {
        AppendXlsxNumber(line, column, number, XlsxFill::kNone, xml);
      } else {
        AppendXlsxText(line, column, cell.text, XlsxFill::kNone, xml);
      }
      break;
    }
  }
}

Result<Done> WriteSheet(XlsxStream& stream, std::string_view sheet, std::size_t index,
                        std::span<const std::string> names, const std::vector<MergedRank>& ranks) {
  constexpr std::size_t kFlushBytes = std::size_t{1} << 20;
  VN_RETURN_IF_ERROR(stream.BeginSheet(sheet));
  std::string xml = "<row r=\"1\">";
  AppendXlsxText(1, 0, "NPU Name", XlsxFill::kNone, xml);
  for (std::uint32_t i = 0; i < ranks.size(); ++i) {
    AppendXlsxText(1, i + 1, fmt::format("rank{}", ranks[i].rank), XlsxFill::kNone, xml);
  }
  xml += "</row>";
  std::uint32_t line = 1;
  const auto flush = [&]() -> Result<Done> {
    VN_ASSIGN_OR_RETURN(const DeflatedPiece piece, DeflatePiece(xml));
    xml.clear();
    return stream.Append(piece);
  };
  for (const std::string& name : names) {
    ++line;
    xml += fmt::format("<row r=\"{}\">", line);
    AppendXlsxText(line, 0, name, XlsxFill::kNone, xml);
    for (std::uint32_t i = 0; i < ranks.size(); ++i) {
      const auto found = ranks[i].values.find(name);
      if (found != ranks[i].values.end()) AppendCell(line, i + 1, found->second[index], xml);
    }
    xml += "</row>";
    if (xml.size() > kFlushBytes) VN_RETURN_IF_ERROR(flush());
  }
  return flush();
}

Result<Done> WriteMerged(const fs::path& path, const std::vector<std::string>& indexes,
                         std::span<const std::string> names, const std::vector<MergedRank>& ranks) {
  VN_ASSIGN_OR_RETURN(XlsxStream stream, XlsxStream::Create(path));
  for (std::size_t index = 0; index < indexes.size(); ++index) {
    if (names.size() < kMaxSheetRows) {
      VN_RETURN_IF_ERROR(WriteSheet(stream, indexes[index], index, names, ranks));
      continue;
    }
    const std::size_t num_parts = (names.size() + kMaxSheetRows - 1) / kMaxSheetRows;
    const std::size_t part_rows = (names.size() + num_parts - 1) / num_parts;
    for (std::size_t part = 0; part < num_parts; ++part) {
      const auto rows = names.subspan(part * part_rows, std::min(part_rows, names.size() - part * part_rows));
      VN_RETURN_IF_ERROR(
          WriteSheet(stream, fmt::format("{}_part_{}", indexes[index], part), index, rows, ranks));
    }
  }
  return stream.Finish();
}

}  // namespace

Outcome<Done> MergeResults(const fs::path& input, const fs::path& output, const fs::path& config_path,
                           const LogSink& sink) {
  Log log(sink);
  if (!IsFolder(input))
    return RunFailure(log, fmt::format("The file path {} does not exist.", input.string()));
  VN_ASSIGN_OR_RETURN(const Config config, ReadConfig(config_path, log));
  VN_RETURN_IF_ERROR(CreateOutputFolder(output, false, log));
  VN_ASSIGN_OR_RETURN(const std::vector<ResultFile> files, FindResults(input, log));
  std::vector<std::string> indexes, names;
  std::vector<MergedRank> ranks;
  FileMerger merger(config, indexes, names, log);
  for (const ResultFile& file : files) {
    VN_ASSIGN_OR_RETURN(std::optional<MergedRank> rank, merger.Read(input / file.name, file.rank));
    if (rank) ranks.push_back(std::move(*rank));
  }
  if (ranks.empty()) {
    log.Warning("Nothing to merge.");
    return Failure(Failure::Ends::kRun, "nothing to merge");
  }
  const Result<ResultStamp> stamp = ResultStamp::Reserve(output);
  if (!stamp) return RunFailure(log, stamp.error().Message());
  const fs::path path = output / fmt::format("multi_ranks_compare_merge_{}.xlsx", stamp->text());
  if (const Result<Done> written = WriteMerged(path, indexes, names, ranks); !written) {
    return RunFailure(log, written.error().Message());
  }
  log.Info(fmt::format("The compare results of the multi-ranks are merged and saved in: {}.", path.string()));
  return Done{};
}

}  // namespace vernier::msprobe
