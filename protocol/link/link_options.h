// What a user may say about links besides their address; the same for every program that has to do with them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"

namespace tessera {

// Files in PEM form that say who this side is, and whom it believes. Empty: the environment or the default (tls_identity.h).
struct KeyFiles {
  std::string certificate;  // of --certificate; those of authorities between it and the root may follow in it
  std::string key;          // of --key
  std::string authority;    // of --authority: the certificates of all authorities whose signature counts
};

// Connections of a link.
inline constexpr uint32_t kConnectionsMax = 16;

// Makes a connection as ConnectTcpSocket() does (tcp_stream.h).
using DialSocket = std::function<Result<UniqueFd>(uint64_t deadline_ns)>;

struct LinkOptions {
  bool insecure = false;  // of --insecure: an address beyond this host may be one where nothing is encrypted
  KeyFiles keys;
  uint32_t connections =
      0;  // of --connections, of a side that connects: how many a link has (joining_links.h); 0: as is usual here
  // Of a side that listens: names in certificates that may connect; none at all, and no file: whoever the authority signed.
  std::vector<std::string> allow;  // of --allow
  std::string allow_file;          // of --allow-file: one name in a line
  std::string tls_records;         // of --tls-records: own or openssl; empty: the environment or the default (tls_tuning.h)
  // Of a side that connects: of --impair, as Impairment::Parse() takes it; empty: the link as it is. For measurements.
  std::string impair;
  // Opens a file of the above to be read, where this process may not(kNotFound, kPermissionDenied). Empty: it opens them itself.
  std::function<Result<UniqueFd>(const std::string& path)> open_file = {};
  // Of a side that connects: makes its TCP connections, where this process may not.
  DialSocket dial = {};
};

// How many connections a link of this host has when nobody says: kUsualConnections where there are cores to carry that many,
// else 1.
inline constexpr uint32_t kUsualConnections = 4;
uint32_t UsualConnections();

// The options as words of a command line, for a program of ours that another one starts.
std::vector<std::string> LinkArguments(const LinkOptions& options);

}  // namespace tessera
