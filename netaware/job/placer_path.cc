#include "netaware/job/placer_path.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>

#include "programs/default_socket.h"
#include "protocol/base/unique_fd.h"
#include "protocol/link/typed_address.h"

namespace tessera {
namespace {

// True if a process accepts connections at this path.
bool Listens(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) return false;
  std::memcpy(address.sun_path, path.data(), path.size());
  const UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  return socket.valid() && connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
}

// The address as the user gave it; empty: none is given.
std::string Typed(const std::string& said) {
  const char* const configured = getenv("TESSERA_PLACER");
  return !said.empty() ? said : configured != nullptr ? configured : "";
}

}  // namespace

std::string FindPlacer(const std::string& said) {
  if (const std::string typed = Typed(said); !typed.empty()) return AddressMeantBy(typed, kPlacerPort);
  const std::string path = UserSocketPath(DefaultSocket::kPlacer);
  return !path.empty() && Listens(path) ? "unix:" + path : "";
}

std::string HowPlacerIsTaken(const std::string& said) {
  const std::string typed = Typed(said);
  return TakenAs(typed, AddressMeantBy(typed, kPlacerPort));
}

}  // namespace tessera
