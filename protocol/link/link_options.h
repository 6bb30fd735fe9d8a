// What a user may say about links besides their address; the same for every program that has to do with them.
#pragma once

#include <string>
#include <vector>

namespace tessera {

struct LinkOptions {
  bool insecure = false;  // of --insecure: an address beyond this host may be one where nothing is encrypted
};

// The options as words of a command line, for a program of ours that another one starts.
inline std::vector<std::string> LinkArguments(const LinkOptions& options) {
  std::vector<std::string> words;
  if (options.insecure) words.push_back("--insecure");
  return words;
}

}  // namespace tessera
