// A link over UCX: RDMA where both hosts have it, UCX's own TCP elsewhere. Plain: neither encrypted nor authenticated.
//
//   client's host                                   server's host
//   ConnectUcx(address, insecure, deadline)         ListenUcx(address, insecure)
//                                                   listener.Finish(listener.Accept(), deadline)
//
// Every frame is an active message of UCX: a header of 48 bytes (UcxMessage in ucx_parts.h) with the FrameHeader and a number,
// since UCX keeps no order, and the payload. A payload of kUcxRendezvousBytes or more stays with its sender until the receiver
// knows its place, and is then read from there straight into it, by the network card where there is one that can; a smaller one
// comes along. What Link::Register() named is registered with the card once, other memory passes through a buffer that is.
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

// Loads UCX (ucx_library.h); to be called before there are threads by programs that use the rest of this header, which otherwise
// do it themselves. kNotFound with the package that is missing.
Status PrepareUcx();
// The directories that UCX loads its modules from: where it lies, and where UCX_MODULE_DIR says. Loads it.
std::vector<std::string> UcxDirectories();

// As ConnectLink() and ListenForLinks() (connect_link.h); and kNotFound with the package that is missing, kUnavailable when no
// device or transport of UCX leads there.
Result<std::unique_ptr<Link>> ConnectUcx(const LinkAddress& address, bool insecure, uint64_t deadline_ns);
Result<std::unique_ptr<LinkListener>> ListenUcx(const LinkAddress& address, bool insecure);

}  // namespace tessera
