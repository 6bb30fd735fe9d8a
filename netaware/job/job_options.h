// The options with which a job requests GPUs from a pool. `tessera run` and tessera-lease have the same ones.
#pragma once

#include <CLI/CLI.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

struct JobOptions {
  std::string placer;                    // from --placer: unix:PATH or tls://HOST:PORT; empty: not given
  std::optional<uint32_t> gpus;          // of --gpus
  std::optional<double> share, limit;    // from --gpu-share, as fractions of each GPU's time
  std::optional<uint64_t> memory_bytes;  // from --gpu-mem, for each GPU
  std::optional<uint32_t> processes;     // from --processes
  std::vector<std::string> models;       // from --gpu-model
  bool same_server = false;              // from --same-server
  std::string isolation, priority;       // from --isolation, --priority; empty: not given
  std::optional<int64_t> wait_ms;        // from --wait

  // True if the job needs something that only a pool offers.
  bool asks() const {
    return gpus || share || memory_bytes || processes || !models.empty() || same_server || !isolation.empty() ||
           !priority.empty();
  }
};

// The parse fills in `options`, which has to outlive `command`.
void AddJobOptions(CLI::App& command, JobOptions* options);
// The same options as words of a command line, for a program that takes them.
std::vector<std::string> JobArguments(const JobOptions& options);

// Parsers of single values. False: the text has another form. "0.5" or "0.5:0.8": a share, and a limit that is at least the
// share. Both are above 0 and at most 1; the limit is 1 by default.
bool ParseShare(std::string_view text, double* share, double* limit);
// "20G", "20GiB", "512 MiB": a number with a unit.
bool ParseMemory(std::string_view text, uint64_t* bytes);
// "500ms", "30s", "5m", "2h", "0".
bool ParseWait(std::string_view text, int64_t* wait_ms);

}  // namespace tessera
