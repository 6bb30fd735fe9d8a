#include "protocol/channel/server_user.h"

#include <pwd.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <optional>
#include <vector>

#include "protocol/base/small_file.h"
#include "protocol/channel/unix_socket.h"

namespace tessera {
namespace {

std::optional<uid_t> NumberOf(std::string_view user) {
  uid_t number = 0;
  const auto [end, error] = std::from_chars(user.data(), user.data() + user.size(), number);
  if (error == std::errc() && end == user.data() + user.size()) return number;
  std::vector<char> room(16384);
  passwd entry{};
  passwd* found = nullptr;
  if (getpwnam_r(std::string(user).c_str(), &entry, room.data(), room.size(), &found) != 0 || found == nullptr)
    return std::nullopt;
  return found->pw_uid;
}

// That of the machine itself is 0 0 4294967295.
bool AllUsersAreKnown() {
  Result<std::string> map = ReadSmallFile("/proc/self/uid_map", 4096);
  return map.ok() && map->find("4294967295") != std::string::npos;
}

std::string TrustedUser() {
  const char* user = getenv(kServerUserVariable);
  return user == nullptr ? "" : user;
}

}  // namespace

ServerUser JudgeServerUser(uid_t server, uid_t own, bool all_known, std::string_view trusted) {
  if (server == 0 || server == own || trusted == "any") return ServerUser::kTrusted;
  if (!trusted.empty() && NumberOf(trusted) == server) return ServerUser::kTrusted;
  return server == kOverflowUser && !all_known ? ServerUser::kUnknown : ServerUser::kOther;
}

bool IsUnknownUser(uid_t user) { return user == kOverflowUser && !AllUsersAreKnown(); }

Status CheckServerUser(int socket, const std::string& path, bool* unknown) {
  Result<PeerCredentials> server = PeerOf(socket);
  if (!server.ok()) return server.status();
  const ServerUser user = JudgeServerUser(server->uid, geteuid(), AllUsersAreKnown(), TrustedUser());
  if (unknown != nullptr) *unknown = user == ServerUser::kUnknown;
  if (user != ServerUser::kOther) return Status::Ok();
  const std::string number = std::to_string(server->uid);
  return Status(StatusCode::kPermissionDenied, "the server at " + path + " runs as another user, " + number +
                                                   ", who would see all that the program computes: if that one is meant, set " +
                                                   kServerUserVariable + "=" + number);
}

Result<UniqueFd> ConnectToServer(const std::string& path, bool* unknown) {
  Result<UniqueFd> socket = ConnectUnix(path);
  if (!socket.ok()) return socket;
  RETURN_IF_ERROR(CheckServerUser(socket->get(), path, unknown));
  return socket;
}

std::string DescribeUnknownServer(const std::string& path) {
  return "it cannot be told here as whom the server at " + path +
         " runs, since this container has no number for that user: if it is right, set " + std::string(kServerUserVariable) +
         "=any";
}

}  // namespace tessera
