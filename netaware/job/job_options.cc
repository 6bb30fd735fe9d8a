#include "netaware/job/job_options.h"

#include <fmt/core.h>

#include <charconv>
#include <cmath>
#include <system_error>
#include <utility>

#include "protocol/base/bytes_text.h"
#include "protocol/base/printable.h"

namespace tessera {
namespace {

constexpr size_t kModelBytesMax = 256;  // the placer's limit

template <typename Number>
bool ParseNumber(std::string_view text, Number* number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
  return error == std::errc() && end == text.data() + text.size();
}

bool ParsePart(std::string_view text, double* part) {
  return ParseNumber(text, part) && std::isfinite(*part) && *part > 0 && *part <= 1;
}

CLI::Validator OneOf(const char* what, std::vector<std::string> words) {
  return CLI::Validator(
      [what, words = std::move(words)](const std::string& word) {
        std::string all;
        for (const std::string& each : words) {
          if (each == word) return std::string();
          all += (all.empty() ? "" : ", ") + each;
        }
        return fmt::format("'{}' is no {}: there is {}", Printable(word), what, all);
      },
      "");
}

[[noreturn]] void Refuse(const char* option, const std::string& text, const std::string& form) {
  throw CLI::ValidationError(option, "'" + Printable(text) + "' is not " + form);
}

}  // namespace

bool ParseShare(std::string_view text, double* share, double* limit) {
  const size_t colon = text.find(':');
  if (!ParsePart(text.substr(0, colon), share)) return false;
  *limit = 1;
  return colon == std::string_view::npos || (ParsePart(text.substr(colon + 1), limit) && *limit >= *share);
}

bool ParseMemory(std::string_view text, uint64_t* bytes) {
  if (text.empty() || (text.back() >= '0' && text.back() <= '9')) return false;
  std::string whole(text);
  const bool is_plain =
      whole.size() > 1 && whole.back() == 'B' && whole[whole.size() - 2] >= '0' && whole[whole.size() - 2] <= '9';
  if (is_plain) whole.pop_back();
  if (!is_plain && whole.back() != 'B') whole += "iB";
  return ParseBytes(whole, bytes) && *bytes != 0;
}

bool ParseWait(std::string_view text, int64_t* wait_ms) {
  constexpr int64_t kMax = 365LL * 24 * 3600;
  *wait_ms = 0;
  if (text == "0") return true;
  constexpr std::pair<std::string_view, int64_t> kUnits[] = {{"ms", 1}, {"s", 1'000}, {"m", 60'000}, {"h", 3'600'000}};
  for (const auto& [unit, unit_ms] : kUnits) {
    int64_t number = 0;
    if (!text.ends_with(unit) || !ParseNumber(text.substr(0, text.size() - unit.size()), &number)) continue;
    if (number < 0 || number > kMax) return false;
    *wait_ms = number * unit_ms;
    return true;
  }
  return false;
}

void AddJobOptions(CLI::App& command, JobOptions* options) {
  command
      .add_option("--placer", options->placer,
                  "the placer of a pool of GPUs, which finds some for the job; a path alone is unix:PATH, a host alone "
                  "tls://HOST:4190 (default: $TESSERA_PLACER, else that of "
                  "config.toml, else this user's own)")
      ->type_name("unix:PATH|tls://HOST:PORT");
  command.add_option("--gpus", options->gpus, "how many GPUs of the pool (default: 1)")
      ->type_name("N")
      ->check(CLI::Range(1U, 64U).description("1 to 64"));
  command
      .add_option_function<std::string>(
          "--gpu-share",
          [options](const std::string& text) {
            double share = 0, limit = 0;
            if (!ParseShare(text, &share, &limit)) {
              Refuse("--gpu-share", text,
                     "SHARE or SHARE:LIMIT, parts of a GPU's time above 0 and 1 at most, such as 0.5 or 0.25:0.5");
            }
            options->share = share;
            options->limit = limit;
          },
          "share of each GPU's time that the job gets whenever it wants it, and the one that it never exceeds (default: 1)")
      ->type_name("SHARE[:LIMIT]");
  command
      .add_option_function<std::string>(
          "--gpu-mem",
          [options](const std::string& text) {
            uint64_t bytes = 0;
            if (!ParseMemory(text, &bytes)) Refuse("--gpu-mem", text, "a size with its unit (K, M, G, T), such as 20G");
            options->memory_bytes = bytes;
          },
          "memory of each GPU (default: as much as the share is of its time, less contexts)")
      ->type_name("SIZE");
  command
      .add_option("--processes", options->processes,
                  "how many processes use the GPUs at a time: there is memory for a context of each (default: 4)")
      ->type_name("N")
      ->check(CLI::Range(1U, 1'024U).description("1 to 1024"));
  command.add_option("--gpu-model", options->models, "models that will do, as nvidia-smi names them (default: any)")
      ->type_name("NAME[,...]")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Validator(
          [](const std::string& model) {
            if (!model.empty() && Printable(model, kModelBytesMax) == model) return std::string();
            return fmt::format("'{}' is no model: 1 to {} characters that can be printed", Printable(model), kModelBytesMax);
          },
          ""));
  command.add_flag("--same-server", options->same_server, "all GPUs of one server");
  command.add_option("--isolation", options->isolation, "how the job is kept apart from others on its GPUs (default: strict)")
      ->type_name("strict|packed")
      ->check(OneOf("isolation", {"strict", "packed"}));
  command
      .add_option("--priority", options->priority,
                  "whether the job gets GPUs' time at once, or only what others leave (default: normal)")
      ->type_name("protected|normal|best-effort")
      ->check(OneOf("priority", {"protected", "normal", "best-effort"}));
  command
      .add_option_function<std::string>(
          "--wait",
          [options](const std::string& text) {
            int64_t wait_ms = 0;
            if (!ParseWait(text, &wait_ms)) Refuse("--wait", text, "a time with its unit (s, m, h), such as 5m, or 0");
            options->wait_ms = wait_ms;
          },
          "how long the job may wait for its GPUs, and for a place at a server that is full; 0: not at all (default: as long as "
          "it "
          "takes for GPUs of a pool, 0 for a place)")
      ->type_name("TIME");
}

std::vector<std::string> JobArguments(const JobOptions& options) {
  std::vector<std::string> words;
  const auto add = [&](const char* option, std::string value) { words.insert(words.end(), {option, std::move(value)}); };
  if (!options.placer.empty()) add("--placer", options.placer);
  if (options.gpus) add("--gpus", std::to_string(*options.gpus));
  if (options.share) add("--gpu-share", fmt::format("{}:{}", *options.share, options.limit.value_or(1)));
  if (options.memory_bytes) add("--gpu-mem", fmt::format("{}B", *options.memory_bytes));
  if (options.processes) add("--processes", std::to_string(*options.processes));
  for (const std::string& model : options.models) add("--gpu-model", model);
  if (options.same_server) words.emplace_back("--same-server");
  if (!options.isolation.empty()) add("--isolation", options.isolation);
  if (!options.priority.empty()) add("--priority", options.priority);
  if (options.wait_ms) add("--wait", fmt::format("{}ms", *options.wait_ms));
  return words;
}

}  // namespace tessera
