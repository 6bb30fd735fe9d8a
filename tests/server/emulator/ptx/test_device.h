// A device made of host memory, for tests of the interpreter.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "server/emulator/ptx/run/launch.h"

namespace tessera::emulator {

class TestMemory : public MemoryMap {
 public:
  ~TestMemory() override {
    for (auto& [begin, range] : ranges_) std::free(reinterpret_cast<void*>(begin));
  }
  bool Find(uint64_t address, MemoryRange* range) override {
    std::lock_guard<std::mutex> lock(mutex_);
    auto next = ranges_.upper_bound(address);
    if (next == ranges_.begin()) return false;
    --next;
    if (address >= next->second.end) return false;
    *range = next->second;
    return true;
  }
  uint64_t New(uint64_t size_bytes) {
    auto* memory = std::aligned_alloc(256, (size_bytes + 255) / 256 * 256);
    std::memset(memory, 0, size_bytes);
    const auto begin = reinterpret_cast<uint64_t>(memory);
    std::lock_guard<std::mutex> lock(mutex_);
    ranges_[begin] = {begin, begin + size_bytes, true};
    return begin;
  }
  bool Delete(uint64_t address) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (ranges_.erase(address) == 0) return false;
    std::free(reinterpret_cast<void*>(address));
    ++generation;
    return true;
  }
  size_t count() {
    std::lock_guard<std::mutex> lock(mutex_);
    return ranges_.size();
  }

 private:
  std::mutex mutex_;
  std::map<uint64_t, MemoryRange> ranges_;
};

struct TestAllocator : GlobalAllocator {
  explicit TestAllocator(TestMemory& memory) : memory(memory) {}
  Result<uint64_t> Allocate(uint64_t size_bytes, uint64_t) override {
    // A module whose variables do not fit fails to load rather than ending the test program.
    if (size_bytes > (64u << 20)) return Status(StatusCode::kResourceExhausted, "too large for a test");
    return memory.New(size_bytes);
  }
  Result<uint64_t> AllocateManaged(uint64_t size_bytes, uint64_t alignment_bytes, bool*) override {
    return Allocate(size_bytes, alignment_bytes);
  }
  void Free(uint64_t address) override { memory.Delete(address); }
  TestMemory& memory;
};

struct TestHeap : DeviceHeap {
  explicit TestHeap(TestMemory& memory) : memory(memory) {}
  uint64_t Allocate(uint64_t size_bytes) override { return memory.New(size_bytes); }
  bool Free(uint64_t address) override { return memory.Delete(address); }
  TestMemory& memory;
};

struct TestSink : PrintSink {
  void Print(std::string_view text) override { printed += text; }
  std::string printed;
};

class TestDevice {
 public:
  template <class T>
  T* Array(const std::vector<T>& values) {
    auto* array = reinterpret_cast<T*>(memory.New(values.size() * sizeof(T)));
    std::memcpy(array, values.data(), values.size() * sizeof(T));
    return array;
  }
  template <class T>
  T* Zeros(size_t count) {
    return reinterpret_cast<T*>(memory.New(count * sizeof(T)));
  }

  // Runs with the arguments packed at their natural alignment.
  template <class... Args>
  LaunchResult Run(const Module& module, std::string_view kernel, Dim3 grid, Dim3 block, uint32_t shared_bytes, Args... args) {
    Launch launch;
    launch.kernel = module.FindKernel(kernel);
    if (launch.kernel == nullptr) {
      LaunchResult missing;
      missing.error = LaunchError::kInvalidValue;
      missing.message = "no such kernel: " + std::string(kernel);
      return missing;
    }
    launch.grid = grid;
    launch.block = block;
    launch.dynamic_shared_bytes = shared_bytes;
    launch.cooperative = cooperative;
    std::vector<std::byte> packed;
    (Pack(&packed, args), ...);
    launch.parameters = packed;
    Environment environment;
    environment.memory = &memory;
    environment.print = &sink;
    environment.heap = &heap;
    environment.cancel = cancel;
    environment.thread_count = thread_count;
    environment.seed = seed;
    return emulator::Run(launch, environment);
  }

  TestMemory memory;
  TestAllocator allocator{memory};
  TestHeap heap{memory};
  TestSink sink;
  bool cooperative = false;
  uint32_t thread_count = 2;
  uint64_t seed = 1;
  const std::atomic<bool>* cancel = nullptr;

 private:
  template <class T>
  static void Pack(std::vector<std::byte>* packed, const T& value) {
    const size_t at = (packed->size() + alignof(T) - 1) / alignof(T) * alignof(T);
    packed->resize(at + sizeof(T));
    std::memcpy(packed->data() + at, &value, sizeof(T));
  }
};

inline std::string ReadPtx(const std::string& name) {
  std::ifstream file(std::string(TESSERA_TEST_PTX_DIR) + "/" + name);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

inline std::unique_ptr<Module> CompileFile(TestDevice& device, const std::string& name) {
  const std::string text = ReadPtx(name);
  EXPECT_FALSE(text.empty()) << name;
  Result<std::unique_ptr<Module>> module = Module::Compile({text}, device.allocator);
  EXPECT_TRUE(module.ok()) << module.status().message();
  return module.ok() ? std::move(module).value() : nullptr;
}

inline std::unique_ptr<Module> CompileText(TestDevice& device, const std::string& text) {
  Result<std::unique_ptr<Module>> module = Module::Compile({text}, device.allocator);
  EXPECT_TRUE(module.ok()) << module.status().message();
  return module.ok() ? std::move(module).value() : nullptr;
}

#define EXPECT_RUNS(expression)                                     \
  do {                                                              \
    const ::tessera::emulator::LaunchResult result_ = (expression); \
    EXPECT_TRUE(result_.ok()) << result_.message;                   \
  } while (false)

}  // namespace tessera::emulator
