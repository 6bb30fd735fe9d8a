// config.toml: defaults for a job's placer and requests, which the command line overrides. Main thread.
//
//   placer = "tls://pool.example:4190"
//   gpu-share = 0.5
//   gpu-model = ["NVIDIA H200", "NVIDIA H100"]
//   wait = "10m"
//
// Keys are the options of a job (AddJobOptions), and the caller's certificate, key and authority for tls://. The file of the
// user is $XDG_CONFIG_HOME/tessera/config.toml (~/.config/tessera/config.toml), the one of the host /etc/tessera/config.toml. A
// key of the user's file comes before that of the host's; a command line and the environment come before both.
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
    std::vector<std::string> values;  // the option's values, in order
    std::string path;                 // the file that contains it
    int line = 0;
  };

  // The paths of the user's file and the host's file. The user's comes from XDG_CONFIG_HOME or HOME; without both there is
  // none.
  static std::vector<std::string> Paths();
  // Reads the files that exist; a missing one costs one open(). An error names file, line and key (config_lines.h). A value
  // that its option does not accept is an error, too. kPermissionDenied: a file may not be read; a file in a directory without
  // access counts as missing.
  static Result<JobConfig> Read(const std::vector<std::string>& paths = Paths());

  // Fills in options that are missing in `job`. A value for the placer is used only if TESSERA_PLACER is not set.
  void Complete(JobOptions* job) const;
  // Fills in the files for tls:// that neither an option (the arguments) nor TESSERA_CERTIFICATE, TESSERA_KEY,
  // TESSERA_AUTHORITY name.
  void CompleteKeys(std::string* certificate, std::string* key, std::string* authority) const;

  const Setting* Find(std::string_view key) const;
  const std::vector<Setting>& settings() const { return settings_; }
  const std::vector<std::string>& files() const { return files_; }  // the files that were read, in the order of Paths()

 private:
  std::vector<Setting> settings_;  // each key once
  std::vector<std::string> files_;
};

}  // namespace tessera
