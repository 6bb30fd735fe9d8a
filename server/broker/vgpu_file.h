// A file of vGPUs: what an administrator writes, and tesserad hands over as text. Two forms, told apart by the first line that is
// not empty: Gemini's begins with a number alone, and everything else is TOML.
//
//   [[vgpu]]
//   name = "train"
//   gpu = 0                  # number in the server's list, or "GPU-uuid"; default 0
//   request = 0.7            # default: --default-request
//   limit = 1.0              # default 1
//   memory = "8GiB"          # bytes, or a text with KiB, MiB, GiB or TiB; default: no limit
//   priority = "normal"      # protected, normal, best-effort; default normal
//   overrun = "bill"         # bill, or end: a session that runs on beyond its tokens while others wait; default bill
//   max_sessions = 4         # that are in it at a time, 1 to 4294967295; default: no limit
//   processes = 1            # whose contexts have room beside the memory, 1 to 1024; default 1
//   sm_percent = 24          # of the GPU's SMs, 1 to 100: kept for tiles, and not enforced yet; default: not said
//   owners = ["uid:1000"]    # users of the server's host, "name:X" of a certificate; default: everybody who may use the server
//
// Gemini's (https://github.com/NTHU-LSALAB/Gemini, resource-config.txt): the number of lines that follow, then in each
// `ID REQUEST LIMIT GPU_MEM`; ST-vGPU's has the percentage of SMs before the memory, which is in bytes. All are of GPU 0. SMs are
// read, noted, and not enforced.
//
// Pure; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/base/status.h"
#include "scheduler/vgpu_spec.h"
#include "server/gate/broker_line.h"

namespace tessera {

// The vGPU of sessions that name none. No file can name it.
inline constexpr std::string_view kDefaultVgpu = "default";

struct FileVgpu {
  VgpuSpec spec{};
  uint32_t gpu = 0;
  std::vector<std::string> owners{};  // holders that may begin sessions (protocol/wire/holder.h); empty: everybody
  size_t line = 0;                    // where it stands, counted from 1; 0: in no file
};

struct VgpuFile {
  std::vector<FileVgpu> vgpus;     // no two of one name
  std::vector<std::string> notes;  // for the log: what was read and has no effect
};

// What a file is read against.
struct VgpuFileTerms {
  std::span<const GpusMessage::Uuid> gpus;
  double default_request = 0;
};

// kInvalidArgument: the sentence begins with "line N: " and names field, value and bound. Each vGPU is good by itself then;
// whether they fit on their GPUs is PlanChange()'s to say (vgpu_change.h).
Result<VgpuFile> ReadVgpuFile(std::string_view text, const VgpuFileTerms& terms);

// "line N: ...", of a file; for line 0 the sentence as it is.
Status AtLine(size_t line, const Status& why);
Status AtLine(size_t line, const std::string& why);

// The forms, for ReadVgpuFile(); names, shares and bounds are its to check.
Result<VgpuFile> ReadTomlVgpus(std::string_view text, const VgpuFileTerms& terms);
Result<VgpuFile> ReadGeminiVgpus(std::string_view text);

}  // namespace tessera
