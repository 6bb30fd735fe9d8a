// Whose servers a client uses. Whoever serves it sees and computes all that it computes, so a socket at a path that others can
// write to must not make it somebody else's client: the kernel says as whom the one at the other end runs.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"

namespace tessera {

// The user, by number or name, whose servers a client uses besides those of its own user and root's; "any": whoever's.
inline constexpr const char* kServerUserVariable = "TESSERA_SERVER_USER";

// How a server's user looks from here.
enum class ServerUser {
  kTrusted,
  kOther,
  kUnknown,  // its number has no place in this user namespace, as in a container
};

// `own`: of this process; `trusted`: what the variable says, empty when it is not set; `all_known`: this user namespace has a
// place for every number. A name that no user has is nobody's.
ServerUser JudgeServerUser(uid_t server, uid_t own, bool all_known, std::string_view trusted);

// What the kernel says in place of a number that has no place in this user namespace (user_namespaces(7)).
inline constexpr uid_t kOverflowUser = 65534;

// Whether this is what the kernel says in place of a number that has no place in this user namespace.
bool IsUnknownUser(uid_t user);

// Whether a connection leads to a server of somebody that is trusted: kPermissionDenied, with what to do, when that is another
// user. One that cannot be known is no error; `*unknown` is true then, when there is a pointer. `path`: where it is, for the
// sentence.
Status CheckServerUser(int socket, const std::string& path, bool* unknown = nullptr);
// As ConnectUnix() and CheckServerUser().
Result<UniqueFd> ConnectToServer(const std::string& path, bool* unknown = nullptr);
// What there is to say then.
std::string DescribeUnknownServer(const std::string& path);

}  // namespace tessera
