#include "server/emulator/driver/code/kernel_requests.h"

#include <algorithm>

#include "server/emulator/driver/core/state.h"

namespace tessera::emulator {
namespace {

thread_local KernelRequests* current_requests = nullptr;

std::shared_ptr<NodeChanges> ChangesOf(uint64_t node) {
  Driver& driver = GetDriver();
  std::lock_guard lock(driver.graph_mutex);
  const auto found = driver.node_changes.find(node);
  return found == driver.node_changes.end() ? nullptr : found->second.lock();
}

}  // namespace

void NodeChanges::Upload() {
  std::lock_guard lock(mutex_);
  uploaded_ = true;
}

void NodeChanges::Reset() {
  std::lock_guard lock(mutex_);
  uploaded_ = false;
  enabled_ = true;
  grid_.reset();
  parameters_.clear();
}

uint32_t NodeChanges::SetParameter(uint64_t offset_bytes, std::span<const std::byte> value) {
  std::lock_guard lock(mutex_);
  if (!uploaded_ || value.size() > parameter_bytes_ || offset_bytes > parameter_bytes_ - value.size()) return kRequestInvalid;
  parameters_.push_back({offset_bytes, {value.begin(), value.end()}});
  return kRequestDone;
}

uint32_t NodeChanges::SetEnabled(bool enabled) {
  std::lock_guard lock(mutex_);
  if (!uploaded_) return kRequestInvalid;
  enabled_ = enabled;
  return kRequestDone;
}

uint32_t NodeChanges::SetGrid(const Dim3& grid) {
  std::lock_guard lock(mutex_);
  if (!uploaded_ || grid.x == 0 || grid.y == 0 || grid.z == 0) return kRequestInvalid;
  grid_ = grid;
  return kRequestDone;
}

bool NodeChanges::Apply(Dim3* grid, std::vector<std::byte>* parameters) {
  std::lock_guard lock(mutex_);
  if (grid_) *grid = *grid_;
  for (const Parameter& parameter : parameters_) {
    std::copy(parameter.value.begin(), parameter.value.end(),
              parameters->begin() + static_cast<std::ptrdiff_t>(parameter.offset_bytes));
  }
  return enabled_;
}

std::shared_ptr<NodeChanges> AddNodeChanges(uint64_t node, size_t parameter_bytes) {
  auto changes = std::make_shared<NodeChanges>(parameter_bytes);
  GetDriver().node_changes[node] = changes;
  return changes;
}

KernelRequests* KernelRequests::Current() { return current_requests; }

KernelRequests::Scope::Scope(KernelRequests* requests) : outer_(current_requests) { current_requests = requests; }

KernelRequests::Scope::~Scope() { current_requests = outer_; }

uint32_t KernelRequests::SetParameter(uint64_t node, uint64_t offset_bytes, std::span<const std::byte> value) {
  const auto changes = ChangesOf(node);
  return changes == nullptr ? kRequestInvalid : changes->SetParameter(offset_bytes, value);
}

uint32_t KernelRequests::SetEnabled(uint64_t node, bool enabled) {
  const auto changes = ChangesOf(node);
  return changes == nullptr ? kRequestInvalid : changes->SetEnabled(enabled);
}

uint32_t KernelRequests::SetGrid(uint64_t node, const Dim3& grid) {
  const auto changes = ChangesOf(node);
  return changes == nullptr ? kRequestInvalid : changes->SetGrid(grid);
}

}  // namespace tessera::emulator
