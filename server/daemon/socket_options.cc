#include "server/daemon/socket_options.h"

#include <grp.h>

#include <charconv>
#include <cstdint>
#include <system_error>

namespace tessera {
namespace {

constexpr mode_t kOfOwner = 0600;
constexpr mode_t kOfOwnerAndGroup = 0660;

// False: it is no number of that base.
bool TakeNumber(const std::string& text, int base, uint32_t* number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number, base);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

Result<SocketAccess> ParseSocketAccess(const std::string& group, const std::string& mode) {
  SocketAccess access;
  if (!group.empty()) {
    uint32_t number = 0;
    if (const struct group* found = getgrnam(group.c_str())) {
      access.group = found->gr_gid;
    } else if (TakeNumber(group, 10, &number) && number != UINT32_MAX) {
      access.group = number;
    } else {
      return Status(
          StatusCode::kInvalidArgument,
          "there is no group '" + group + "': --socket-group takes the name of one that this host knows, or its number");
    }
    access.mode = kOfOwnerAndGroup;
  }
  if (mode.empty()) return access;
  uint32_t number = 0;
  if (!TakeNumber(mode, 8, &number) || number > 0777 || (number & kOfOwner) != kOfOwner) {
    return Status(StatusCode::kInvalidArgument,
                  "'" + mode + "' is no mode for a socket: --socket-mode takes an octal number from 600 to 777, like 660 or 666");
  }
  access.mode = number;
  return access;
}

}  // namespace tessera
