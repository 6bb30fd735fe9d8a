// The checks of `tessera doctor` on this host. A check changes nothing, and returns its findings.
#pragma once

#include <string>
#include <vector>

namespace tessera {

struct InstallLayout;

enum class Grade { kGood, kNote, kProblem };

struct Finding {
  Grade grade = Grade::kGood;
  std::string subject;  // one word or two: "client library"
  std::string text;     // the observed state
  std::string advice;   // the advice; empty if there is nothing to do
};

// Checks that the programs exist and have this version.
std::vector<Finding> CheckInstallation(const InstallLayout& layout);
// Processor, kernel, C library, memory files, /dev/shm, limits.
std::vector<Finding> CheckSystem();
// The NVIDIA driver and device files of this host; a host without them has no problem.
std::vector<Finding> CheckLocalDriver();
// Checks the users who may connect to a server's socket, and whether the server's user can be determined. No findings if there
// is no socket at `path`.
std::vector<Finding> CheckSocket(const std::string& path);

}  // namespace tessera
