#include "tests/bench/copy_ways.h"

#include <cpuid.h>
#include <immintrin.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "client-stub/process/past_caches.h"

namespace tessera {
namespace {

constexpr size_t kLine = 64;

template <typename Each>
void ForEachLine(char* lines, size_t bytes, const Each& each) {
  for (size_t at = 0; at < bytes; at += kLine) each(lines + at);
}

template <ReadAhead kAhead>
void Wide(void* to, const void* from, size_t bytes) {
  CopyPastCachesBy64(to, from, bytes, kAhead);
}

void Plain(void* to, const void* from, size_t bytes) { std::memcpy(to, from, bytes); }

// Loads and stores past the caches share the few lines that a core has under way: all loads of a block come first.
void InBlocks(void* to, const void* from, size_t bytes) {
  constexpr size_t kBlock = 8192;
  for (size_t at = 0; at < bytes; at += kBlock) {
    const size_t size = std::min(kBlock, bytes - at);
    const char* const read = static_cast<const char*>(from) + at;
    ForEachLine(const_cast<char*>(read), size,
                [](const char* line) { static_cast<void>(*static_cast<const volatile char*>(line)); });
    CopyPastCachesBy16(static_cast<char*>(to) + at, read, size);
  }
}

// A line is written whole by one instruction, past the buffers that gather stores.
void Direct(void* to, const void* from, size_t bytes) {
  auto* written = static_cast<char*>(to);
  const auto* read = static_cast<const char*>(from);
  const size_t head = std::min<size_t>(-reinterpret_cast<uintptr_t>(written) % kLine, bytes);
  std::memcpy(written, read, head);
  written += head, read += head, bytes -= head;
  for (; bytes >= kLine; written += kLine, read += kLine, bytes -= kLine) {
    asm volatile("movdir64b (%1), %0" : : "r"(written), "r"(read) : "memory");
  }
  _mm_sfence();
  std::memcpy(written, read, bytes);
}

// Into the caches, and out of them again while they are at hand.
template <typename Each>
void AndOut(void* to, const void* from, size_t bytes, const Each& each) {
  constexpr size_t kBlock = 8192;
  for (size_t at = 0; at < bytes; at += kBlock) {
    const size_t size = std::min(kBlock, bytes - at);
    auto* const written = static_cast<char*>(to) + at;
    std::memcpy(written, static_cast<const char*>(from) + at, size);
    ForEachLine(written, size, each);
  }
  _mm_sfence();
}

void Demoted(void* to, const void* from, size_t bytes) {
  AndOut(to, from, bytes, [](char* line) { asm volatile("cldemote %0" : "+m"(*line)); });
}

void WrittenBack(void* to, const void* from, size_t bytes) {
  AndOut(to, from, bytes, [](char* line) { asm volatile("clwb %0" : "+m"(*line)); });
}

}  // namespace

std::vector<CopyWay> CopyWays() {
  unsigned eax = 0, features = 0, more = 0, edx = 0;
  __get_cpuid_count(7, 0, &eax, &features, &more, &edx);
  constexpr unsigned kWriteBack = 1u << 24, kDemote = 1u << 25, kDirect = 1u << 28;
  std::vector<CopyWay> ways = {{"product", "what the product does", nullptr},
                               {"plain", "memcpy", Plain},
                               {"past", "past the caches, 16 bytes at once", CopyPastCachesBy16},
                               {"blocks", "past them, each block read before it is written", InBlocks}};
  if (HasStoresOf64()) {
    ways.push_back({"wide", "past them, 64 bytes at once", Wide<ReadAhead::kNo>});
    ways.push_back({"ahead", "the same, reads asked for 1 KiB ahead", Wide<ReadAhead::kYes>});
  }
  if (more & kDirect) ways.push_back({"direct", "past them, by MOVDIR64B", Direct});
  if (more & kDemote) ways.push_back({"demoted", "memcpy and CLDEMOTE", Demoted});
  if (features & kWriteBack) ways.push_back({"written", "memcpy and CLWB", WrittenBack});
  return ways;
}

}  // namespace tessera
