// A link over UCX: RDMA where both hosts have it, UCX's own TCP elsewhere. Plain: neither encrypted nor authenticated.
//
//   client's host                                   server's host
//   ConnectUcx(address, insecure, deadline)         ListenUcx(address, insecure)
//                                                   listener.Finish(listener.Accept(), deadline)
//
// Every frame is an active message of UCX: a header of 48 bytes (UcxMessage in ucx_parts.h) with the FrameHeader and a number,
// since UCX keeps no order, and the payload. A payload of kUcxRendezvousBytes or more stays with its sender until the receiver
// knows its place. Then it is read straight into that place, by the network card if that can do it. A smaller payload comes
// along. Memory of Link::Register() is registered with the card once; other memory passes through a registered buffer.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "protocol/base/status.h"
#include "protocol/link/link.h"
#include "protocol/link/link_address.h"
#include "protocol/link/link_listener.h"

namespace tessera {

inline constexpr uint64_t kUcxRendezvousBytes = uint64_t{64} << 10;

// Loads UCX (ucx_library.h). Call it before the first thread; otherwise the functions below load it. kNotFound with the missing
// package.
Status PrepareUcx();
// Loads UCX. The directories of its modules: its own, and UCX_MODULE_DIR.
std::vector<std::string> UcxDirectories();

// As ConnectLink() and ListenForLinks() (connect_link.h). Besides, kNotFound with the missing package, and kUnavailable when no
// device or transport of UCX leads there.
Result<std::unique_ptr<Link>> ConnectUcx(const LinkAddress& address, bool insecure, uint64_t deadline_ns);
Result<std::unique_ptr<LinkListener>> ListenUcx(const LinkAddress& address, bool insecure);

}  // namespace tessera
