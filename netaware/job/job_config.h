// config.toml: whom a job asks, and what it asks for when its command line does not say. Main thread.
//
//   placer = "tls://pool.example:4190"
//   gpu-share = 0.5
//   gpu-model = ["NVIDIA H200", "NVIDIA H100"]
//   wait = "10m"
//
// Keys are the options of a job (AddJobOptions), and certificate, key and authority of who asks at tls://. The file of the user
// is $XDG_CONFIG_HOME/tessera/config.toml (~/.config/tessera/config.toml), the one of the host /etc/tessera/config.toml. A key of
// the user's file comes before that of the host's; a command line and the environment come before both.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "netaware/job/job_options.h"
#include "protocol/base/status.h"

namespace tessera {

class JobConfig {
 public:
  struct Setting {
    std::string key;
    std::vector<std::string> values;  // as the option takes them, one after another
    std::string path;                 // of its file
    int line = 0;
  };

  // The user's file, then the host's. The environment says where the user's is; without HOME there is none.
  static std::vector<std::string> Paths();
  // Of the files that are there; each costs one open() where it is not. An error has file, line and key (config_lines.h), and
  // goes for a value that its option does not take, too. kPermissionDenied: a file may not be read; one in a
  // directory that is closed to this user is not there.
  static Result<JobConfig> Read(const std::vector<std::string>& paths = Paths());

  // What `job` does not say, and for the placer TESSERA_PLACER neither.
  void Complete(JobOptions* job) const;
  // The files for tls:// that neither an option (these) nor TESSERA_CERTIFICATE, TESSERA_KEY, TESSERA_AUTHORITY name.
  void CompleteKeys(std::string* certificate, std::string* key, std::string* authority) const;

  const Setting* Find(std::string_view key) const;
  const std::vector<Setting>& settings() const { return settings_; }
  const std::vector<std::string>& files() const { return files_; }  // that were read, in the order of Paths()

 private:
  std::vector<Setting> settings_;  // each key once
  std::vector<std::string> files_;
};

}  // namespace tessera
