#include "precheck/config.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <string_view>

#include "core/json_cursor.h"
#include "core/mapped_file.h"
#include "core/paths.h"
#include "core/text.h"
#include "precheck/rules_shipped.h"

namespace vernier::precheck {
namespace {

constexpr std::string_view kYamlKeys[] = {"white_list", "black_list", "error_data_path", "precision",
                                          "quantization_api_list"};
constexpr std::string_view kJsonKeys[] = {"white_list", "black_list", "error_data_path"};
constexpr std::string_view kFamilies[] = {
    "families.Functional", "families.Tensor",      "families.Torch",     "families.VF",
    "families.NPU",        "families.Distributed", "families.MindSpeed", "families.NPU_Distributed"};
constexpr int kMaxPrecision = 20;

bool IsKnownApi(std::string_view name) {
  return std::any_of(std::begin(kFamilies), std::end(kFamilies),
                     [&](std::string_view family) { return Rules::Shipped().Lists(family, name); });
}

std::string Guess(std::string_view word, std::span<const std::string_view> known) {
  const std::string_view guess = DidYouMean(word, known);
  return guess.empty() ? "" : fmt::format("; did you mean {}?", guess);
}

// One file that is being read; `where` names it.
class ConfigReader {
 public:
  ConfigReader(std::string where, Config config) : where_(std::move(where)), config_(std::move(config)) {}

  Result<Config> FromYaml(std::string_view text) {
    try {  // yaml-cpp throws
      const YAML::Node root = YAML::Load(std::string(text));
      if (!root.IsMap() && !root.IsNull()) return Mistake("", "expected keys and values");
      for (const auto& entry : root) VN_RETURN_IF_ERROR(Take(entry.first.as<std::string>(), entry.second));
    } catch (const YAML::Exception& error) {
      return Error{ErrorCode::kBadHeader, where_, error.what()};
    }
    return Checked();
  }

  Result<Config> FromJson(std::string_view text) {
    JsonCursor cursor(text);
    Result<Done> taken = Done{};
    bool found = false;
    if (cursor.Peek() != JsonKind::kObject) cursor.Fail(JsonError::kNotAnObject);
    cursor.ForEachMember([&](std::string_view key, bool) {
      if (key != "acc_check") return cursor.Skip();
      found = true;
      taken = TakeJson(cursor);
      if (!taken) cursor.Stop();
    });
    if (!taken) return taken.error();
    if (cursor.ok() && !cursor.AtEnd()) cursor.Fail(JsonError::kMoreAfterEnd);
    if (!cursor.ok()) return Error{ErrorCode::kBadHeader, where_, cursor.problem()};
    if (!found) return Mistake("acc_check", "missing");
    return Checked();
  }

 private:
  Error Mistake(std::string_view key, std::string_view problem) const {
    return Error{ErrorCode::kBadArgument, where_,
                 fmt::format("{}{}{}", key, key.empty() ? "" : ": ", problem)};
  }

  Result<Done> Take(const std::string& key, const YAML::Node& value) {
    VN_RETURN_IF_ERROR(CheckKey(key, kYamlKeys));
    if (key == "error_data_path") {
      if (!value.IsScalar()) return Mistake(key, "expected a text");
      config_.error_data_path = value.as<std::string>();
      return Done{};
    }
    if (key == "precision") {
      int number = -1;
      if (!value.IsScalar() || !YAML::convert<int>::decode(value, number) || number < 0 ||
          number > kMaxPrecision)
        return Mistake(key, fmt::format("expected a number from 0 to {}", kMaxPrecision));
      config_.precision = number;
      return Done{};
    }
    if (!value.IsSequence() && !value.IsNull()) return Mistake(key, "expected a list");
    std::vector<std::string> words;
    for (const YAML::Node& item : value) {
      if (!item.IsScalar()) return Mistake(key, "expected a list of names");
      words.push_back(item.as<std::string>());
    }
    return SetList(key, std::move(words));
  }

  Result<Done> TakeJson(JsonCursor& cursor) {
    // Keys that are absent have their defaults, whatever the yaml says.
    config_.white_list.clear();
    config_.black_list.clear();
    config_.error_data_path = "./";
    Result<Done> result = Done{};
    if (cursor.Peek() != JsonKind::kObject) return Mistake("acc_check", "expected an object");
    cursor.ForEachMember([&](std::string_view key, bool) {
      if (Result<Done> taken = TakeJsonMember(cursor, key); !taken) {
        if (result) result = taken.error();
        cursor.Stop();
      }
    });
    return result;
  }

  Result<Done> TakeJsonMember(JsonCursor& cursor, std::string_view key) {
    VN_RETURN_IF_ERROR(CheckKey(key, kJsonKeys));
    std::string buffer;
    const JsonKind kind = cursor.Peek();
    if (key == "error_data_path") {
      if (kind != JsonKind::kString) return Mistake(key, "expected a text");
      config_.error_data_path = cursor.TakeString(buffer);
      return Done{};
    }
    if (kind != JsonKind::kArray) return Mistake(key, "expected a list");
    std::vector<std::string> words;
    bool all_texts = true;
    cursor.ForEachElement([&] {
      all_texts = all_texts && cursor.Peek() == JsonKind::kString;
      if (!all_texts) return cursor.Skip();
      words.emplace_back(cursor.TakeString(buffer));
    });
    if (!all_texts) return Mistake(key, "expected a list of names");
    return SetList(std::string(key), std::move(words));
  }

  Result<Done> CheckKey(std::string_view key, std::span<const std::string_view> known) const {
    if (std::find(known.begin(), known.end(), key) != known.end()) return Done{};
    return Mistake("", fmt::format("unknown key {}{}", key, Guess(key, known)));
  }

  Result<Done> SetList(const std::string& key, std::vector<std::string> words) {
    if (key == "quantization_api_list") {
      config_.quantised = std::move(words);
      return Done{};
    }
    for (const std::string& word : words) {
      if (!IsKnownApi(word))
        return Mistake(key, fmt::format("{} is not the name of an API", Printable(word)));
    }
    (key == "white_list" ? config_.white_list : config_.black_list) = std::move(words);
    return Done{};
  }

  Result<Config> Checked() {
    if (!IsFolder(config_.error_data_path)) return In(where_, MissingPath(config_.error_data_path));
    return config_;
  }

  std::string where_;
  Config config_;
};

}  // namespace

bool Config::Admits(const Rules& rules, std::string_view api) const {
  const auto has = [api](const std::vector<std::string>& list) {
    return std::find(list.begin(), list.end(), api) != list.end();
  };
  return !has(black_list) && !rules.Lists("never_run", api) && (white_list.empty() || has(white_list));
}

Result<Config> DefaultConfig() { return ConfigReader("shipped config", {}).FromYaml(kShippedConfig); }

Result<Config> ReadConfig(const std::filesystem::path& path) {
  VN_ASSIGN_OR_RETURN(const FileRef file, MappedFile::Open(path.string()));
  return ConfigFromText(TextOf(file), path);
}

Result<Config> ConfigFromText(std::string_view text, const std::filesystem::path& path) {
  VN_ASSIGN_OR_RETURN(Config defaults, DefaultConfig());
  const bool is_yaml = path.extension() == ".yaml" || path.extension() == ".yml";
  ConfigReader reader(path.string(), std::move(defaults));
  return is_yaml ? reader.FromYaml(text) : reader.FromJson(text);
}

}  // namespace vernier::precheck
