// The options of `tessera vgpu`. A plain value.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tessera {

struct VgpuOptions {
  std::string action;   // create, resize, delete, import, list, show, watch, usage
  std::string name;     // the vGPU's name, of all but list and watch; of usage it may be empty; of import it is a file
  std::string control;  // unix:PATH or tls://HOST:PORT of the API; empty: TESSERA_CONTROL, else beside the server's socket
  std::string server;   // unix:PATH; empty: TESSERA_SERVER, which tessera sets to one that it finds
  std::string certificate, key, authority;  // files for tls://; empty: the environment or the default
  std::string output = "text";              // or "json"
  std::optional<double> request{}, limit{};
  std::optional<uint64_t> memory_bytes{};  // 0: no limit
  std::optional<uint32_t> max_sessions{};  // 0: no limit
  std::optional<std::string> gpu{}, priority{}, overrun{};
  std::vector<std::string> owners{};                 // as the user types them; empty: none given
  std::map<std::string, std::string> annotations{};  // by key
  std::optional<uint64_t> revision{};                // of resize and delete
  bool force = false;                                // of delete
  std::optional<uint32_t> grace_s{};                 // of delete by force
  std::optional<std::string> request_id{};
  std::string since{}, until{};     // of usage, as the user types them; empty: a day ago, now
  std::string by = "all";           // of usage: hour, day, all
  std::optional<uint32_t> count{};  // of watch; nullopt: endless
};

}  // namespace tessera
