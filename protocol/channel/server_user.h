// Decides whose servers a client trusts. A server sees everything that its client computes. Others may be able to put a socket at
// the server's path, so the client asks the kernel as which user the other end runs.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"

namespace tessera {

// A user, by number or name, whose servers a client trusts besides its own user's and root's; "any": everybody's.
inline constexpr const char* kServerUserVariable = "TESSERA_SERVER_USER";

// How a server's user looks from here.
enum class ServerUser {
  kTrusted,
  kOther,
  kUnknown,  // its number is not mapped in this user namespace, as in a container
};

// `own`: the user of this process. `trusted`: the variable's value; empty: not set. `all_known`: this user namespace maps every
// number. A name that no user has means nobody.
ServerUser JudgeServerUser(uid_t server, uid_t own, bool all_known, std::string_view trusted);

// What the kernel shows in place of a number that is not mapped in this user namespace (user_namespaces(7)).
inline constexpr uid_t kOverflowUser = 65534;

// Whether the kernel shows this number in place of one that is not mapped in this user namespace.
bool IsUnknownUser(uid_t user);

// Ok when the server's user is trusted, else kPermissionDenied with what to do. A user who cannot be known is no error;
// `*unknown` (may be null) is true then. `path`: for the message.
Status CheckServerUser(int socket, const std::string& path, bool* unknown = nullptr);
// As ConnectUnix() and CheckServerUser().
Result<UniqueFd> ConnectToServer(const std::string& path, bool* unknown = nullptr);
// The message about a server whose user is unknown.
std::string DescribeUnknownServer(const std::string& path);

}  // namespace tessera
