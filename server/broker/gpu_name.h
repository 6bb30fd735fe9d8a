// How users name a GPU of a server: by its number in the server's list, or by its UUID. Pure; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "protocol/base/status.h"
#include "server/gate/broker_line.h"

namespace tessera {

// "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx", as NVIDIA's tools write it.
std::string GpuName(const GpusMessage::Uuid& uuid);

// The number of the GPU that `name` is: "0", or "GPU-..." in small or capital letters. kInvalidArgument: there is none; the
// sentence says how many there are.
Result<uint32_t> FindGpu(std::string_view name, std::span<const GpusMessage::Uuid> gpus);

}  // namespace tessera
