// All vGPUs of a server but `default`, by name: who may use them, and who made them. Those of the file and those of the API are
// apart: neither changes what the other made.
//
//   const Result<VgpuBook> next = book.WithFile(file.vgpus);   // then the GPUs are asked whether it fits,
//   book = *next;                                              // and only then it counts
//
// A plain value; used by one thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "protocol/base/status.h"
#include "server/broker/vgpu_file.h"

namespace tessera {

enum class MadeBy { kFile, kApi };
// "file", "api".
std::string_view MadeByName(MadeBy made_by);

struct BookedVgpu {
  VgpuSpec spec{};
  uint32_t gpu = 0;
  std::vector<std::string> owners{};  // as FileVgpu has them
  MadeBy made_by = MadeBy::kFile;
  uint64_t revision = 0;  // larger with each change of this vGPU, and than those of all that had its name before

  // Whether sessions of this holder may begin in it.
  bool IsFor(std::string_view holder) const;
  friend bool operator==(const BookedVgpu&, const BookedVgpu&) = default;
};

class VgpuBook {
 public:
  const std::map<std::string, BookedVgpu, std::less<>>& vgpus() const { return vgpus_; }
  // Null: there is none of this name.
  const BookedVgpu* Find(std::string_view name) const;
  // Those of this GPU, as PlanChange() takes them: in the end `last`, which are in the book too.
  std::vector<FileVgpu> WantedOf(uint32_t gpu, std::span<const FileVgpu> last) const;

  // The book with these in place of all that the file had made. kInvalidArgument, with its line: the API made one of that name.
  Result<VgpuBook> WithFile(std::span<const FileVgpu> vgpus) const;
  // The book with this one, made by the API: a new one, or one of the API's in place of what it was. kInvalidArgument: the file
  // made the one of that name.
  Result<VgpuBook> With(const FileVgpu& vgpu) const { return With(std::span(&vgpu, 1)); }
  // Likewise with several.
  Result<VgpuBook> With(std::span<const FileVgpu> vgpus) const;
  // The API's as a file of vGPUs, GPUs by UUID, with those that are aside.
  std::string TextOfApi(std::span<const GpusMessage::Uuid> gpus) const;
  uint64_t revision() const { return revision_; }
  // Later revisions are beyond this one.
  void RevisionsAfter(uint64_t revision) { revision_ = std::max(revision_, revision); }

  // Of the API, by name, and not in force: its GPU has gone, or it does not fit any more. It is kept as it was written down,
  // until it is deleted.
  struct Aside {
    std::string text;
    std::string why;
    friend bool operator==(const Aside&, const Aside&) = default;
  };
  const std::map<std::string, Aside, std::less<>>& aside() const { return aside_; }
  void PutAside(const std::string& name, Aside vgpu) { aside_[name] = std::move(vgpu); }
  void DropAside(const std::string& name) { aside_.erase(name); }
  // The book without one that the API made. kNotFound; kInvalidArgument: the file made it.
  Result<VgpuBook> Without(std::string_view name) const;

 private:
  static Status IsOfFile(std::string_view name);
  void Put(const FileVgpu& vgpu, MadeBy made_by);

  std::map<std::string, BookedVgpu, std::less<>> vgpus_;
  std::map<std::string, Aside, std::less<>> aside_;
  uint64_t revision_ = 0;  // the last one
};

}  // namespace tessera
