// Generated from protocol/spec/toy.toml by protocol/codegen. Do not edit.

#include "generated/messages/toy.h"

#include "protocol/codegen/field_text.h"

namespace tessera {

void cuToyCreateRequest::Encode(Encoder& out) const {
  PutHandle(out, toy);
  PutPod(out, flags);
}
bool cuToyCreateRequest::Decode(Decoder& in) {
  GetHandle(in, &toy);
  GetPod(in, &flags);
  return in.ok();
}
std::string cuToyCreateRequest::ToString() const {
  FieldText text("cuToyCreateRequest");
  text.AddHandle("toy", toy);
  text.AddPod("flags", flags);
  return text.Take();
}

void cuToyCreateReply::Encode(Encoder& out) const {
}
bool cuToyCreateReply::Decode(Decoder& in) {
  return in.ok();
}
std::string cuToyCreateReply::ToString() const {
  FieldText text("cuToyCreateReply");
  return text.Take();
}

void cuToyDestroyRequest::Encode(Encoder& out) const {
  PutHandle(out, toy);
}
bool cuToyDestroyRequest::Decode(Decoder& in) {
  GetHandle(in, &toy);
  return in.ok();
}
std::string cuToyDestroyRequest::ToString() const {
  FieldText text("cuToyDestroyRequest");
  text.AddHandle("toy", toy);
  return text.Take();
}

void cuToyDestroyReply::Encode(Encoder& out) const {
}
bool cuToyDestroyReply::Decode(Decoder& in) {
  return in.ok();
}
std::string cuToyDestroyReply::ToString() const {
  FieldText text("cuToyDestroyReply");
  return text.Take();
}

void cuToyRenameRequest::Encode(Encoder& out) const {
  PutHandle(out, toy);
  PutString(out, name);
  PutBytes(out, data);
  PutPod(out, size);
  PutPod(out, length);
}
bool cuToyRenameRequest::Decode(Decoder& in) {
  GetHandle(in, &toy);
  GetString(in, &name);
  GetBytes(in, &data);
  GetPod(in, &size);
  GetPod(in, &length);
  if (!LengthIs(data.size(), this->size)) in.Fail();
  return in.ok();
}
std::string cuToyRenameRequest::ToString() const {
  FieldText text("cuToyRenameRequest");
  text.AddHandle("toy", toy);
  text.AddString("name", name);
  text.AddBytes("data", data);
  text.AddPod("size", size);
  text.AddPod("length", length);
  return text.Take();
}

void cuToyRenameReply::Encode(Encoder& out) const {
  PutString(out, old);
}
bool cuToyRenameReply::Decode(Decoder& in) {
  GetString(in, &old);
  return in.ok();
}
std::string cuToyRenameReply::ToString() const {
  FieldText text("cuToyRenameReply");
  text.AddString("old", old);
  return text.Take();
}

void cuToyPlay_v2Request::Encode(Encoder& out) const {
  PutPod(out, has_toys);
  PutArray(out, toys);
  PutPod(out, number);
  PutArray(out, points);
  PutPod(out, place);
  PutPod(out, has_friends);
  PutPod(out, friend_count);
  PutPod(out, userData);
  PutHandle(out, stream);
}
bool cuToyPlay_v2Request::Decode(Decoder& in) {
  GetPod(in, &has_toys);
  GetArray(in, &toys);
  GetPod(in, &number);
  GetArray(in, &points);
  GetPod(in, &place);
  GetPod(in, &has_friends);
  GetPod(in, &friend_count);
  GetPod(in, &userData);
  GetHandle(in, &stream);
  if ((has_toys ? !LengthIs(toys.size(), this->number) : !toys.empty())) in.Fail();
  if (!LengthIs(points.size(), 2)) in.Fail();
  return in.ok();
}
std::string cuToyPlay_v2Request::ToString() const {
  FieldText text("cuToyPlay_v2Request");
  text.AddPod("has_toys", has_toys);
  text.AddArray("toys", toys);
  text.AddPod("number", number);
  text.AddArray("points", points);
  text.AddPod("place", place);
  text.AddPod("has_friends", has_friends);
  text.AddPod("friend_count", friend_count);
  text.AddPod("userData", userData);
  text.AddHandle("stream", stream);
  return text.Take();
}

void cuToyPlay_v2Reply::Encode(Encoder& out) const {
  PutPod(out, place);
  PutArray(out, friends);
  PutPod(out, friend_count);
}
bool cuToyPlay_v2Reply::Decode(Decoder& in) {
  GetPod(in, &place);
  GetArray(in, &friends);
  GetPod(in, &friend_count);
  return in.ok();
}
std::string cuToyPlay_v2Reply::ToString() const {
  FieldText text("cuToyPlay_v2Reply");
  text.AddPod("place", place);
  text.AddArray("friends", friends);
  text.AddPod("friend_count", friend_count);
  return text.Take();
}

void cuToyGetColourRequest::Encode(Encoder& out) const {
  PutHandle(out, toy);
}
bool cuToyGetColourRequest::Decode(Decoder& in) {
  GetHandle(in, &toy);
  return in.ok();
}
std::string cuToyGetColourRequest::ToString() const {
  FieldText text("cuToyGetColourRequest");
  text.AddHandle("toy", toy);
  return text.Take();
}

void cuToyGetColourReply::Encode(Encoder& out) const {
  PutPod(out, colour);
}
bool cuToyGetColourReply::Decode(Decoder& in) {
  GetPod(in, &colour);
  return in.ok();
}
std::string cuToyGetColourReply::ToString() const {
  FieldText text("cuToyGetColourReply");
  text.AddPod("colour", colour);
  return text.Take();
}

void cuToyPaintRequest::Encode(Encoder& out) const {
  PutHandle(out, toy);
  PutArray(out, colours);
  PutStrings(out, names);
}
bool cuToyPaintRequest::Decode(Decoder& in) {
  GetHandle(in, &toy);
  GetArray(in, &colours);
  GetStrings(in, &names);
  return in.ok();
}
std::string cuToyPaintRequest::ToString() const {
  FieldText text("cuToyPaintRequest");
  text.AddHandle("toy", toy);
  text.AddArray("colours", colours);
  text.AddStrings("names", names);
  return text.Take();
}

void cuToyPaintReply::Encode(Encoder& out) const {
  PutPod(out, place);
  PutString(out, text);
}
bool cuToyPaintReply::Decode(Decoder& in) {
  GetPod(in, &place);
  GetString(in, &text);
  return in.ok();
}
std::string cuToyPaintReply::ToString() const {
  FieldText text("cuToyPaintReply");
  text.AddPod("place", place);
  text.AddString("text", text);
  return text.Take();
}

void tesseraToyTickRequest::Encode(Encoder& out) const {
  PutPod(out, time_ns);
}
bool tesseraToyTickRequest::Decode(Decoder& in) {
  GetPod(in, &time_ns);
  return in.ok();
}
std::string tesseraToyTickRequest::ToString() const {
  FieldText text("tesseraToyTickRequest");
  text.AddPod("time_ns", time_ns);
  return text.Take();
}

void tesseraToyTickReply::Encode(Encoder& out) const {
}
bool tesseraToyTickReply::Decode(Decoder& in) {
  return in.ok();
}
std::string tesseraToyTickReply::ToString() const {
  FieldText text("tesseraToyTickReply");
  return text.Take();
}


}  // namespace tessera
