// What a user may say about links besides their address, in all programs that make links.
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
  std::string certificate;  // of --certificate; intermediate authorities' certificates may follow in the file
  std::string key;          // of --key
  std::string authority;    // of --authority: the certificates of all authorities whose signature counts
};

// Connections of a link.
inline constexpr uint32_t kConnectionsMax = 16;

// Makes a connection as ConnectTcpSocket() does (tcp_stream.h).
using DialSocket = std::function<Result<UniqueFd>(uint64_t deadline_ns)>;

struct LinkOptions {
  bool insecure = false;  // of --insecure: links to other hosts may go unencrypted
  KeyFiles keys;
  uint32_t connections =
      0;  // of --connections, of a side that connects: connections of a link (joining_links.h); 0: UsualConnections()
  // Of a side that listens: names in certificates that may connect. With no name and no file every certificate of the authority
  // may.
  std::vector<std::string> allow;  // of --allow
  std::string allow_file;          // of --allow-file: one name in a line
  std::string tls_records;         // of --tls-records: own or openssl; empty: the environment or the default (tls_tuning.h)
  // Of a side that connects: of --impair, in the form of Impairment::Parse(); empty: none. For measurements.
  std::string impair;
  // Opens one of these files, if this process may not. kNotFound, kPermissionDenied. Empty: the process opens them itself.
  std::function<Result<UniqueFd>(const std::string& path)> open_file = {};
  // Of a side that connects: makes its TCP connections, if this process may not.
  DialSocket dial = {};
};

// The default of `connections`: kUsualConnections where there are enough cores for them, else 1.
inline constexpr uint32_t kUsualConnections = 4;
uint32_t UsualConnections();

// The options as words of a command line, for a program of ours that another one starts.
std::vector<std::string> LinkArguments(const LinkOptions& options);

}  // namespace tessera
