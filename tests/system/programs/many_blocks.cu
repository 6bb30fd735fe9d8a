// Very many small blocks, of device memory and of managed memory: each is its own, all of them go back, and what is freed is free
// at the next look.
//
// usage: many_blocks [--cleared] [--few]
// --few: a sixth of them, for links that take long.
// --cleared: managed blocks read as zeros at first, also those whose memory another block had. Natively nobody promises that.
#include <cuda.h>

#include <atomic>
#include <cstring>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "check.h"

static size_t Free() {
  size_t free = 0, total = 0;
  CHECK_CUDA(cudaMemGetInfo(&free, &total));
  return free;
}

// What a driver may keep of memory that was freed. Driver 580 keeps 92 MiB of 70,000 managed blocks (measured: H100).
constexpr size_t kKept = size_t{128} << 20;

__global__ void Number(unsigned** blocks, int count, unsigned factor) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) blocks[i][0] = static_cast<unsigned>(i) * factor;
}

__global__ void Increment(unsigned** blocks, int first, int step, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x) * step + first;
  if (i < count) ++blocks[i][0];
}

static int Groups(int count) { return (count + 255) / 256; }

static void DeviceBlocks(int count) {
  const size_t before = Free();
  std::vector<unsigned*> blocks(count);
  for (int i = 0; i < count; ++i) CHECK_CUDA(cudaMalloc(&blocks[i], 40 + i % 300));
  unsigned** table;
  CHECK_CUDA(cudaMalloc(&table, count * sizeof(*table)));
  CHECK_CUDA(cudaMemcpy(table, blocks.data(), count * sizeof(*table), cudaMemcpyHostToDevice));
  Number<<<Groups(count), 256>>>(table, count, 2654435761U);
  CHECK_CUDA(cudaDeviceSynchronize());
  for (int i = 0; i < count; i += 1009) {
    unsigned value = 0;
    CHECK_CUDA(cudaMemcpy(&value, blocks[i], sizeof(value), cudaMemcpyDeviceToHost));
    EXPECT_EQ(value, static_cast<unsigned>(i) * 2654435761U);
  }
  for (int i = 1; i < count; i += 2) CHECK_CUDA(cudaFree(blocks[i]));
  for (int i = count - 2; i >= 0; i -= 2) CHECK_CUDA(cudaFree(blocks[i]));
  CHECK_CUDA(cudaFree(table));
  EXPECT_EQ(Free() + kKept >= before, true);
}

static void CheckAttributes(unsigned* block, size_t bytes, std::set<unsigned long long>* ids) {
  const auto address = reinterpret_cast<CUdeviceptr>(block);
  EXPECT_EQ(address % 256, CUdeviceptr{0});
  CUdeviceptr base = 0;
  size_t size = 0;
  CHECK_DRIVER(cuMemGetAddressRange(&base, &size, address + bytes - 1));
  EXPECT_EQ(base == address, true);
  EXPECT_EQ(size, bytes);
  unsigned managed = 0;
  unsigned long long id = 0;
  CHECK_DRIVER(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address));
  CHECK_DRIVER(cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, address));
  EXPECT_EQ(managed, 1U);
  EXPECT_EQ(ids->insert(id).second, true);
}

// More blocks than there can be mappings (vm.max_map_count is 65530 as a rule), also when every second one was touched.
static void ManagedBlocks(int count) {
  const size_t before = Free();
  std::vector<unsigned*> blocks(count);
  for (int i = 0; i < count; ++i) CHECK_CUDA(cudaMallocManaged(&blocks[i], 32));
  std::set<unsigned long long> ids;
  for (int i = 0; i < count; i += 997) CheckAttributes(blocks[i], 32, &ids);
  for (int i = 0; i < count; ++i) blocks[i][0] = static_cast<unsigned>(i);
  for (int i = 0; i < count; ++i) EXPECT_EQ(blocks[i][0], static_cast<unsigned>(i));
  unsigned** table;
  CHECK_CUDA(cudaMallocManaged(&table, count * sizeof(*table)));
  std::memcpy(table, blocks.data(), count * sizeof(*table));
  Increment<<<Groups(count), 256>>>(table, 0, 1, count);
  CHECK_CUDA(cudaDeviceSynchronize());
  for (int i = 0; i < count; i += 2) blocks[i][0] += 10;
  Increment<<<Groups(count), 256>>>(table, 0, 3, count);
  CHECK_CUDA(cudaDeviceSynchronize());
  for (int i = 0; i < count; ++i) {
    EXPECT_EQ(blocks[i][0], static_cast<unsigned>(i + 1 + (i % 2 == 0 ? 10 : 0) + (i % 3 == 0 ? 1 : 0)));
  }
  // Some go, others stay.
  for (int i = 0; i < count; i += 2) CHECK_CUDA(cudaFree(blocks[i]));
  for (int i = 1; i < count; i += 1234) {
    EXPECT_EQ(blocks[i][0], static_cast<unsigned>(i + 1 + (i % 3 == 0 ? 1 : 0)));
  }
  for (int i = count - 1; i > 0; i -= 2) CHECK_CUDA(cudaFree(blocks[i]));
  CHECK_CUDA(cudaFree(table));
  EXPECT_EQ(Free() + kKept >= before, true);
}

// Blocks come and go in any order, some of them with a kernel's work in between.
static void Churn(bool cleared) {
  struct Held {
    unsigned* block;
    size_t words;
    unsigned value;
  };
  std::mt19937 random(7);
  std::vector<Held> held;
  unsigned** table;
  CHECK_CUDA(cudaMallocManaged(&table, 1000 * sizeof(*table)));
  for (int i = 0; i < 4000; ++i) {
    if (held.size() > 500 || (!held.empty() && random() % 3 == 0)) {
      const size_t at = random() % held.size();
      const Held one = held[at];
      EXPECT_EQ(one.block[0], one.value);
      EXPECT_EQ(one.block[one.words - 1], one.words == 1 ? one.value : one.value + 1);
      CHECK_CUDA(cudaFree(one.block));
      held[at] = held.back();
      held.pop_back();
      continue;
    }
    Held one{nullptr, random() % 4 == 0 ? 1 + random() % 16000 : 1 + random() % 60, static_cast<unsigned>(random())};
    CHECK_CUDA(cudaMallocManaged(&one.block, one.words * sizeof(unsigned)));
    if (cleared) {
      for (size_t word = 0; word < one.words; ++word) EXPECT_EQ(one.block[word], 0U);
    }
    one.block[one.words - 1] = one.value + 1;
    one.block[0] = one.value;
    held.push_back(one);
    if (random() % 50 != 0) continue;
    for (size_t k = 0; k < held.size(); ++k) {
      table[k] = held[k].block;
      if (held[k].words == 1) {
        ++held[k].value;
        continue;
      }
      ++held[k].value;
      ++held[k].block[held[k].words - 1];
    }
    const int count = static_cast<int>(held.size());
    Increment<<<Groups(count), 256>>>(table, 0, 1, count);
    CHECK_CUDA(cudaDeviceSynchronize());
  }
  CHECK_CUDA(cudaDeviceSynchronize());
  for (const Held& one : held) CHECK_CUDA(cudaFree(one.block));
  CHECK_CUDA(cudaFree(table));
}

// Two threads with a stream each, whose blocks lie between each other's: neither notices the other. A host function is the third.
static void Neighbours() {
  const int threads = 2, count = 60, rounds = 100;
  std::vector<unsigned*> blocks[threads + 1];
  for (int i = 0; i < count; ++i) {
    for (auto& of_thread : blocks) {
      CHECK_CUDA(cudaMallocManaged(&of_thread.emplace_back(), 4 + i * 50));
      *of_thread.back() = 0;
    }
  }
  std::vector<std::thread> workers;
  std::atomic<bool> wrong{false};
  for (int t = 0; t < threads; ++t) {
    workers.emplace_back([&, t] {
      cudaStream_t stream;
      CHECK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
      unsigned** table;
      CHECK_CUDA(cudaMalloc(&table, count * sizeof(*table)));
      CHECK_CUDA(cudaMemcpy(table, blocks[t].data(), count * sizeof(*table), cudaMemcpyHostToDevice));
      struct Touched {
        std::vector<unsigned*>* blocks;
        std::atomic<bool>* wrong;
        unsigned round;
      } touched{&blocks[threads], &wrong, 0};
      const cudaHostFn_t touch = [](void* data) {
        auto& of = *static_cast<Touched*>(data);
        for (unsigned* block : *of.blocks) {
          if (*block != of.round) *of.wrong = true;
          ++*block;
        }
        ++of.round;
      };
      for (int round = 0; round < rounds; ++round) {
        Increment<<<1, 256, 0, stream>>>(table, 0, 1, count);
        if (t == 0) CHECK_CUDA(cudaLaunchHostFunc(stream, touch, &touched));
        CHECK_CUDA(cudaStreamSynchronize(stream));
        for (unsigned* block : blocks[t]) {
          if (*block != 2U * static_cast<unsigned>(round) + 1) wrong = true;
          ++*block;
        }
      }
      CHECK_CUDA(cudaFree(table));
      CHECK_CUDA(cudaStreamDestroy(stream));
    });
  }
  for (std::thread& worker : workers) worker.join();
  EXPECT_EQ(wrong.load(), false);
  for (auto& of_thread : blocks) {
    for (unsigned* block : of_thread) CHECK_CUDA(cudaFree(block));
  }
}

// Blocks that are attached to streams, beside some that are not.
static void Attached() {
  const int count = 20;
  cudaStream_t streams[2];
  std::vector<unsigned*> blocks(count);
  for (cudaStream_t& stream : streams) CHECK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  for (int i = 0; i < count; ++i) {
    CHECK_CUDA(cudaMallocManaged(&blocks[i], 100, i % 5 == 0 ? cudaMemAttachHost : cudaMemAttachGlobal));
    if (i % 3 < 2) CHECK_CUDA(cudaStreamAttachMemAsync(streams[i % 3], blocks[i], 0, cudaMemAttachSingle));
    CHECK_CUDA(cudaDeviceSynchronize());
    blocks[i][0] = static_cast<unsigned>(i);
  }
  unsigned** table;
  CHECK_CUDA(cudaMalloc(&table, count * sizeof(*table)));
  CHECK_CUDA(cudaMemcpy(table, blocks.data(), count * sizeof(*table), cudaMemcpyHostToDevice));
  for (int round = 0; round < 20; ++round) {
    for (int s = 0; s < 2; ++s) Increment<<<1, 256, 0, streams[s]>>>(table, s, 3, count);
    CHECK_CUDA(cudaDeviceSynchronize());
    // The kernels of both streams, each for its own; the last third is the program's alone.
    for (int i = 0; i < count; ++i) EXPECT_EQ(blocks[i][0], static_cast<unsigned>(i + round + (i % 3 < 2 ? round + 1 : 0)));
    for (int i = 0; i < count; ++i) ++blocks[i][0];
  }
  for (unsigned* block : blocks) CHECK_CUDA(cudaFree(block));
  CHECK_CUDA(cudaFree(table));
  for (cudaStream_t stream : streams) CHECK_CUDA(cudaStreamDestroy(stream));
}

// What is freed while a stream captures is there at the next look, too.
static void FreedInCapture() {
  cudaStream_t stream;
  CHECK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  const size_t before = Free();
  char* large;
  unsigned* small[100];
  CHECK_CUDA(cudaMalloc(&large, size_t{200} << 20));
  for (unsigned*& block : small) CHECK_CUDA(cudaMallocManaged(&block, 1000));
  cudaGraph_t graph;
  CHECK_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  CHECK_CUDA(cudaFree(large));
  for (unsigned* block : small) CHECK_CUDA(cudaFree(block));
  CHECK_CUDA(cudaStreamEndCapture(stream, &graph));
  CHECK_CUDA(cudaGraphDestroy(graph));
  EXPECT_EQ(Free() + kKept >= before, true);
  CHECK_CUDA(cudaStreamDestroy(stream));
}

int main(int argc, char** argv) {
  bool cleared = false;
  int factor = 6;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--cleared") == 0) cleared = true;
    if (std::strcmp(argv[i], "--few") == 0) factor = 1;
  }
  CHECK_CUDA(cudaFree(nullptr));
  DeviceBlocks(3'000 * factor);
  ManagedBlocks(7'000 * factor);
  Churn(cleared);
  Neighbours();
  Attached();
  FreedInCapture();
  CHECK_CUDA(cudaDeviceSynchronize());
  std::printf("ok\n");
}
