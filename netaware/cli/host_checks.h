// What `tessera doctor` looks at on this host. Each check looks, changes nothing, and gives its findings.
#pragma once

#include <string>
#include <vector>

namespace tessera {

struct InstallLayout;

enum class Grade { kGood, kNote, kProblem };

struct Finding {
  Grade grade = Grade::kGood;
  std::string subject;  // one word or two: "client library"
  std::string text;     // what is the case
  std::string advice;   // what to do; empty when there is nothing to do
};

// That the programs are there and of this version.
std::vector<Finding> CheckInstallation(const InstallLayout& layout);
// Processor, kernel, C library, memory files, /dev/shm, limits.
std::vector<Finding> CheckSystem();
// The NVIDIA driver and device files of this host; none is no problem.
std::vector<Finding> CheckLocalDriver();
// Who may connect to a server's socket, and whether it can be told whose it is. Nothing when there is no socket at `path`.
std::vector<Finding> CheckSocket(const std::string& path);

}  // namespace tessera
