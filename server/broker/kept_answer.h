// The answer to a change of the control API as bytes, which the daemon keeps for whoever asks again with the same request id
// (server/gate/answered_requests.h), and a number that tells what was asked for from something else.
//
// Pure functions; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "server/broker/vgpu_call.h"

namespace tessera {

struct KeptAnswer {
  std::string about{};  // which change it was, for sentences: "vGPU 'a'"
  VgpuAnswer answer{};  // of kCreate, kUpdate, kDelete or kImport
};

// Empty: it has more bytes than are kept.
std::string BytesOf(const KeptAnswer& kept);
// None: these bytes are of another release, or damaged.
std::optional<KeptAnswer> KeptAnswerOf(std::string_view bytes);

// Of everything that the call says but its holder and its request id. The same in every process of this release.
uint64_t DigestOf(const VgpuCall& call);

}  // namespace tessera
