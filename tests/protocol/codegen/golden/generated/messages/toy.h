// Generated from protocol/spec/toy.toml by protocol/codegen. Do not edit.
// Messages of the domain `toy`: plain structs, used by one thread.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/runtime/fields.h"
#include "protocol/runtime/touches.h"

namespace tessera {

struct cuToyCreateRequest {
  static constexpr uint32_t kId = 0x0001;
  HandleId toy{};
  unsigned int flags{};

  void Encode(Encoder& out) const;
  // Bytes and text point into the decoded record. False: the record is not such a message.
  bool Decode(Decoder& in);
  std::string ToString() const;
};

struct cuToyCreateReply {
  static constexpr uint32_t kId = 0x0001;

  void Encode(Encoder& out) const;
  // Bytes and text point into the decoded record. False: the record is not such a message.
  bool Decode(Decoder& in);
  std::string ToString() const;
};

struct cuToyDestroyRequest {
  static constexpr uint32_t kId = 0x0002;
  HandleId toy{};

  void Encode(Encoder& out) const;
  // Bytes and text point into the decoded record. False: the record is not such a message.
  bool Decode(Decoder& in);
  std::string ToString() const;
};

struct cuToyDestroyReply {
  static constexpr uint32_t kId = 0x0002;

  void Encode(Encoder& out) const;
  // Bytes and text point into the decoded record. False: the record is not such a message.
  bool Decode(Decoder& in);
  std::string ToString() const;
};

struct cuToyRenameRequest {
  static constexpr uint32_t kId = 0x0004;
  HandleId toy{};
  std::string_view name;
  std::span<const std::byte> data;
  size_t size{};
  int length{};

  void Encode(Encoder& out) const;
  // Bytes and text point into the decoded record. False: the record is not such a message.
  bool Decode(Decoder& in);
  std::string ToString() const;
};

struct cuToyRenameReply {
  static constexpr uint32_t kId = 0x0004;
  std::string_view old;

  void Encode(Encoder& out) const;
  // Bytes and text point into the decoded record. False: the record is not such a message.
  bool Decode(Decoder& in);
  std::string ToString() const;
};

struct cuToyPlay_v2Request {
  static constexpr uint32_t kId = 0x0005;
  bool has_toys{};
  Array<HandleId> toys;
  unsigned int number{};
  Array<CUpoint> points;
  CUpoint place{};
  bool has_friends{};
  size_t friend_count{};
  uint64_t userData{};
  HandleId stream{};

  void Encode(Encoder& out) const;
  // Bytes and text point into the decoded record. False: the record is not such a message.
  bool Decode(Decoder& in);
  std::string ToString() const;
};

struct cuToyPlay_v2Reply {
  static constexpr uint32_t kId = 0x0005;
  CUpoint place{};
  Array<HandleId> friends;
  size_t friend_count{};

  void Encode(Encoder& out) const;
  // Bytes and text point into the decoded record. False: the record is not such a message.
  bool Decode(Decoder& in);
  std::string ToString() const;
};

struct cuToyGetColourRequest {
  static constexpr uint32_t kId = 0x0006;
  HandleId toy{};

  void Encode(Encoder& out) const;
  // Bytes and text point into the decoded record. False: the record is not such a message.
  bool Decode(Decoder& in);
  std::string ToString() const;
};

struct cuToyGetColourReply {
  static constexpr uint32_t kId = 0x0006;
  int colour{};

  void Encode(Encoder& out) const;
  // Bytes and text point into the decoded record. False: the record is not such a message.
  bool Decode(Decoder& in);
  std::string ToString() const;
};

struct cuToyPaintRequest {
  static constexpr uint32_t kId = 0x0007;
  HandleId toy{};
  Array<uint32_t> colours;
  std::vector<std::string_view> names;

  void Encode(Encoder& out) const;
  // Bytes and text point into the decoded record. False: the record is not such a message.
  bool Decode(Decoder& in);
  std::string ToString() const;
};

struct cuToyPaintReply {
  static constexpr uint32_t kId = 0x0007;
  CUpoint place{};
  std::string_view text;

  void Encode(Encoder& out) const;
  // Bytes and text point into the decoded record. False: the record is not such a message.
  bool Decode(Decoder& in);
  std::string ToString() const;
};

struct cuToyThrowRequest {
  static constexpr uint32_t kId = 0x000b;
  static constexpr Touches kTouches = Touches::kAnything;
  HandleId toy{};
  HandleId stream{};

  std::span<const HandleId> Streams() const { return {&this->stream, 1}; }
  void Encode(Encoder& out) const;
  // Bytes and text point into the decoded record. False: the record is not such a message.
  bool Decode(Decoder& in);
  std::string ToString() const;
};

struct cuToyThrowReply {
  static constexpr uint32_t kId = 0x000b;

  void Encode(Encoder& out) const;
  // Bytes and text point into the decoded record. False: the record is not such a message.
  bool Decode(Decoder& in);
  std::string ToString() const;
};

struct cuToyHurlRequest {
  static constexpr uint32_t kId = 0x000c;
  HandleId toy{};
  HandleId stream{};

  void Encode(Encoder& out) const;
  // Bytes and text point into the decoded record. False: the record is not such a message.
  bool Decode(Decoder& in);
  std::string ToString() const;
};

struct cuToyHurlReply {
  static constexpr uint32_t kId = 0x000c;

  void Encode(Encoder& out) const;
  // Bytes and text point into the decoded record. False: the record is not such a message.
  bool Decode(Decoder& in);
  std::string ToString() const;
};

struct tesseraToyTickRequest {
  static constexpr uint32_t kId = 0x000a;
  uint64_t time_ns{};

  void Encode(Encoder& out) const;
  // Bytes and text point into the decoded record. False: the record is not such a message.
  bool Decode(Decoder& in);
  std::string ToString() const;
};

struct tesseraToyTickReply {
  static constexpr uint32_t kId = 0x000a;

  void Encode(Encoder& out) const;
  // Bytes and text point into the decoded record. False: the record is not such a message.
  bool Decode(Decoder& in);
  std::string ToString() const;
};


}  // namespace tessera
