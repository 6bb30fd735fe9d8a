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

void Plain(void* to, const void* from, size_t bytes) { std::memcpy(to, from, bytes); }

// Loads and stores past the caches share the few lines that a core has under way: all loads of a block come first.
void InBlocks(void* to, const void* from, size_t bytes) {
  constexpr size_t kBlock = 8192;
  for (size_t at = 0; at < bytes; at += kBlock) {
    const size_t size = std::min(kBlock, bytes - at);
    const char* const read = static_cast<const char*>(from) + at;
    ForEachLine(const_cast<char*>(read), size,
                [](const char* line) { static_cast<void>(*static_cast<const volatile char*>(line)); });
    CopyPastCaches(static_cast<char*>(to) + at, read, size);
  }
}

// Copies up to where a line of `to` begins.
void CopyHead(char*& to, const char*& from, size_t& bytes) {
  const size_t head = std::min<size_t>(-reinterpret_cast<uintptr_t>(to) % kLine, bytes);
  std::memcpy(to, from, head);
  to += head, from += head, bytes -= head;
}

// 64 bytes at once, with the lines of some turns later asked for.
template <int kAhead>
__attribute__((target("avx512f"))) void Wide(void* to, const void* from, size_t bytes) {
  auto* written = static_cast<char*>(to);
  const auto* read = static_cast<const char*>(from);
  CopyHead(written, read, bytes);
  for (; bytes >= kLine; written += kLine, read += kLine, bytes -= kLine) {
    if constexpr (kAhead != 0) _mm_prefetch(read + kAhead, _MM_HINT_T0);
    _mm512_stream_si512(reinterpret_cast<__m512i*>(written), _mm512_loadu_si512(read));
  }
  _mm_sfence();
  std::memcpy(written, read, bytes);
}

// A line is written whole by one instruction, past the buffers that gather stores.
void Direct(void* to, const void* from, size_t bytes) {
  auto* written = static_cast<char*>(to);
  const auto* read = static_cast<const char*>(from);
  CopyHead(written, read, bytes);
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
                               {"past", "past the caches, 16 bytes at once", CopyPastCaches},
                               {"blocks", "past them, each block read before it is written", InBlocks}};
  if (__builtin_cpu_supports("avx512f")) {
    ways.push_back({"wide", "past them, 64 bytes at once", Wide<0>});
    ways.push_back({"ahead", "the same, reads asked for 1 KiB ahead", Wide<1024>});
  }
  if (more & kDirect) ways.push_back({"direct", "past them, by MOVDIR64B", Direct});
  if (more & kDemote) ways.push_back({"demoted", "memcpy and CLDEMOTE", Demoted});
  if (features & kWriteBack) ways.push_back({"written", "memcpy and CLWB", WrittenBack});
  return ways;
}

}  // namespace tessera
