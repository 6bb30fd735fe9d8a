// What a job asks a pool for, as users write it: the same options of `tessera run`, and of tessera-lease, which asks.
#pragma once

#include <CLI/CLI.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

struct JobOptions {
  std::string placer;                    // of --placer: unix:PATH or tls://HOST:PORT; empty: not said
  std::optional<uint32_t> gpus;          // of --gpus
  std::optional<double> share, limit;    // of --gpu-share, parts of each GPU's time
  std::optional<uint64_t> memory_bytes;  // of --gpu-mem, of each GPU
  std::optional<uint32_t> processes;     // of --processes
  std::vector<std::string> models;       // of --gpu-model
  bool same_server = false;              // of --same-server
  std::string isolation, priority;       // of --isolation, --priority; empty: not said
  std::optional<int64_t> wait_ms;        // of --wait

  // Whether anything was asked for that only a pool gives.
  bool asks() const {
    return gpus || share || memory_bytes || processes || !models.empty() || same_server || !isolation.empty() ||
           !priority.empty();
  }
};

// `options` is filled in when the command line is parsed, and outlives `command`.
void AddJobOptions(CLI::App& command, JobOptions* options);
// The words that say the same, for a program that takes these options.
std::vector<std::string> JobArguments(const JobOptions& options);

// Forms of single values. False: it has none of them.
// "0.5" or "0.5:0.8": above 0, 1 at most, the second one no less than the first, which it is by default.
bool ParseShare(std::string_view text, double* share, double* limit);
// "20G", "20GiB", "512 MiB": a unit is to be there.
bool ParseMemory(std::string_view text, uint64_t* bytes);
// "500ms", "30s", "5m", "2h", "0".
bool ParseWait(std::string_view text, int64_t* wait_ms);

}  // namespace tessera
