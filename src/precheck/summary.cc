// What a run found, for a person.
#include <fmt/format.h>

#include <algorithm>

#include "core/text.h"
#include "precheck/run.h"
#include "vernier/report.h"

namespace vernier::precheck {
namespace {

constexpr std::size_t kNumWorst = 10;
constexpr Verdict kShownVerdicts[] = {Verdict::kPass, Verdict::kWarning, Verdict::kError, Verdict::kSkip};

bool IsWorse(const FailedCall& a, const FailedCall& b) {
  if (a.verdict != b.verdict) return a.verdict == Verdict::kError;
  return a.severity > b.severity;
}

std::string ReplayCommand(const FailedCall& call, const RunRequest& request) {
  std::string command = fmt::format("vernier acc_check -api_info {}", request.api_info.string());
  if (!call.device.empty()) command += " -d " + call.device;
  if (request.thresholds != Thresholds::kManual) command += " --thresholds peer";
  return command + " --only " + call.name;
}

std::string Escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string CountsLine(const RunSummary& summary) {
  std::string line = fmt::format("{} APIs", summary.num_calls);
  if (!summary.device.empty())
    line += fmt::format(" on {} against the CPU, torch {}", summary.device, summary.torch);
  line += ':';
  for (const Verdict verdict : kShownVerdicts)
    line +=
        fmt::format("{} {} {}", verdict == Verdict::kPass ? "" : ",", summary.count(verdict), Name(verdict));
  if (summary.num_resumed > 0) line += fmt::format("; {} were done before", summary.num_resumed);
  return line;
}

}  // namespace

void RunSummary::Count(std::string_view prefix, FailedCall call) {
  const auto verdict = static_cast<std::size_t>(call.verdict);
  ++families[std::string(prefix)][verdict];
  ++totals[verdict];
  if (call.verdict != Verdict::kError && call.verdict != Verdict::kWarning) return;
  const auto place = std::upper_bound(worst.begin(), worst.end(), call, IsWorse);
  worst.insert(place, std::move(call));
  if (worst.size() > kNumWorst) worst.pop_back();
}

std::string SummaryText(const RunSummary& summary, const RunRequest& request) {
  std::string text = CountsLine(summary) + '\n';
  if (summary.families.size() > 1) {
    text += fmt::format("  {:<14}", "");
    for (const Verdict verdict : kShownVerdicts) text += fmt::format("{:>9}", Name(verdict));
    text += '\n';
    for (const auto& [family, counts] : summary.families) {
      text += fmt::format("  {:<14}", Printable(family));
      for (const Verdict verdict : kShownVerdicts)
        text += fmt::format("{:>9}", counts[static_cast<std::size_t>(verdict)]);
      text += '\n';
    }
  }
  const std::uint64_t num_bad = summary.count(Verdict::kError) + summary.count(Verdict::kWarning);
  if (num_bad > summary.worst.size())
    text += fmt::format("the worst {} of {}:\n", summary.worst.size(), num_bad);
  for (const FailedCall& call : summary.worst) {
    text += fmt::format("  {:<7}  {}  {}\n           {}\n", Name(call.verdict), Printable(call.name),
                        Printable(call.failed_by), ReplayCommand(call, request));
  }
  return text;
}

std::string SummaryHtml(const RunSummary& summary, const RunRequest& request) {
  std::string page =
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>acc_check</title>\n<style>"
      "body{font:14px sans-serif;margin:2em}table{border-collapse:collapse;margin:1em 0}"
      "td,th{border:1px solid #ccc;padding:.3em .6em;text-align:left}td.n{text-align:right}"
      ".error{background:#fdd}.warning{background:#ffd}code{font-size:12px}</style></head><body>\n";
  page += fmt::format("<h1>{}</h1>\n<p>{}</p>\n<table><tr><th>family</th>",
                      Escaped(request.api_info.string()), Escaped(CountsLine(summary)));
  for (const Verdict verdict : kShownVerdicts) page += fmt::format("<th>{}</th>", Name(verdict));
  page += "</tr>\n";
  for (const auto& [family, counts] : summary.families) {
    page += fmt::format("<tr><td>{}</td>", Escaped(Printable(family)));
    for (const Verdict verdict : kShownVerdicts)
      page += fmt::format("<td class=\"n\">{}</td>", counts[static_cast<std::size_t>(verdict)]);
    page += "</tr>\n";
  }
  page += "</table>\n";
  if (!summary.worst.empty()) {
    page += "<table><tr><th>verdict</th><th>API</th><th>failed by</th><th>repeat</th></tr>\n";
    for (const FailedCall& call : summary.worst) {
      page += fmt::format(
          "<tr class=\"{0}\"><td>{0}</td><td>{1}</td><td>{2}</td><td><code>{3}</code></td></tr>\n",
          Name(call.verdict), Escaped(Printable(call.name)), Escaped(Printable(call.failed_by)),
          Escaped(ReplayCommand(call, request)));
    }
    page += "</table>\n";
  }
  if (!summary.result.empty())
    page +=
        fmt::format("<p>{}<br>{}</p>\n", Escaped(summary.result.string()), Escaped(summary.details.string()));
  return page + "</body></html>\n";
}

}  // namespace vernier::precheck
