// Generated from protocol/spec/toy.toml by protocol/codegen. Do not edit.

#include "generated/messages/toy.h"

#include "protocol/runtime/field_text.h"

namespace tessera {

void cuToyCreateRequest::Encode(Encoder& out) const {
  PutFixed(out, this->toy, this->flags);
}
bool cuToyCreateRequest::Decode(Decoder& in) {
  GetFixed(in, &this->toy, &this->flags);
  return in.ok();
}
std::string cuToyCreateRequest::ToString() const {
  FieldText text("cuToyCreateRequest");
  text.AddHandle("toy", this->toy);
  text.AddPod("flags", this->flags);
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
  PutHandle(out, this->toy);
}
bool cuToyDestroyRequest::Decode(Decoder& in) {
  GetHandle(in, &this->toy);
  return in.ok();
}
std::string cuToyDestroyRequest::ToString() const {
  FieldText text("cuToyDestroyRequest");
  text.AddHandle("toy", this->toy);
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
  PutHandle(out, this->toy);
  PutString(out, this->name);
  PutBytes(out, this->data);
  PutFixed(out, this->size, this->length);
}
bool cuToyRenameRequest::Decode(Decoder& in) {
  GetHandle(in, &this->toy);
  GetString(in, &this->name);
  GetBytes(in, &this->data);
  GetFixed(in, &this->size, &this->length);
  if (!LengthIs(this->data.size(), this->size)) in.Fail();
  return in.ok();
}
std::string cuToyRenameRequest::ToString() const {
  FieldText text("cuToyRenameRequest");
  text.AddHandle("toy", this->toy);
  text.AddString("name", this->name);
  text.AddBytes("data", this->data);
  text.AddPod("size", this->size);
  text.AddPod("length", this->length);
  return text.Take();
}

void cuToyRenameReply::Encode(Encoder& out) const {
  PutString(out, this->old);
}
bool cuToyRenameReply::Decode(Decoder& in) {
  GetString(in, &this->old);
  return in.ok();
}
std::string cuToyRenameReply::ToString() const {
  FieldText text("cuToyRenameReply");
  text.AddString("old", this->old);
  return text.Take();
}

void cuToyPlay_v2Request::Encode(Encoder& out) const {
  PutPod(out, this->has_toys);
  PutArray(out, this->toys);
  PutPod(out, this->number);
  PutArray(out, this->points);
  PutFixed(out, this->place, this->has_friends, this->friend_count, this->userData, this->stream);
}
bool cuToyPlay_v2Request::Decode(Decoder& in) {
  GetPod(in, &this->has_toys);
  GetArray(in, &this->toys);
  GetPod(in, &this->number);
  GetArray(in, &this->points);
  GetPod(in, &this->place);
  GetPod(in, &this->has_friends);
  GetFixed(in, &this->friend_count, &this->userData, &this->stream);
  if ((this->has_toys ? !LengthIs(this->toys.size(), this->number) : !this->toys.empty())) in.Fail();
  if (!LengthIs(this->points.size(), 2)) in.Fail();
  return in.ok();
}
std::string cuToyPlay_v2Request::ToString() const {
  FieldText text("cuToyPlay_v2Request");
  text.AddPod("has_toys", this->has_toys);
  text.AddArray("toys", this->toys);
  text.AddPod("number", this->number);
  text.AddArray("points", this->points);
  text.AddPod("place", this->place);
  text.AddPod("has_friends", this->has_friends);
  text.AddPod("friend_count", this->friend_count);
  text.AddPod("userData", this->userData);
  text.AddHandle("stream", this->stream);
  return text.Take();
}

void cuToyPlay_v2Reply::Encode(Encoder& out) const {
  PutPod(out, this->place);
  PutArray(out, this->friends);
  PutPod(out, this->friend_count);
}
bool cuToyPlay_v2Reply::Decode(Decoder& in) {
  GetPod(in, &this->place);
  GetArray(in, &this->friends);
  GetPod(in, &this->friend_count);
  return in.ok();
}
std::string cuToyPlay_v2Reply::ToString() const {
  FieldText text("cuToyPlay_v2Reply");
  text.AddPod("place", this->place);
  text.AddArray("friends", this->friends);
  text.AddPod("friend_count", this->friend_count);
  return text.Take();
}

void cuToyGetColourRequest::Encode(Encoder& out) const {
  PutHandle(out, this->toy);
}
bool cuToyGetColourRequest::Decode(Decoder& in) {
  GetHandle(in, &this->toy);
  return in.ok();
}
std::string cuToyGetColourRequest::ToString() const {
  FieldText text("cuToyGetColourRequest");
  text.AddHandle("toy", this->toy);
  return text.Take();
}

void cuToyGetColourReply::Encode(Encoder& out) const {
  PutPod(out, this->colour);
}
bool cuToyGetColourReply::Decode(Decoder& in) {
  GetPod(in, &this->colour);
  return in.ok();
}
std::string cuToyGetColourReply::ToString() const {
  FieldText text("cuToyGetColourReply");
  text.AddPod("colour", this->colour);
  return text.Take();
}

void cuToyPaintRequest::Encode(Encoder& out) const {
  PutHandle(out, this->toy);
  PutArray(out, this->colours);
  PutStrings(out, this->names);
}
bool cuToyPaintRequest::Decode(Decoder& in) {
  GetHandle(in, &this->toy);
  GetArray(in, &this->colours);
  GetStrings(in, &this->names);
  return in.ok();
}
std::string cuToyPaintRequest::ToString() const {
  FieldText text("cuToyPaintRequest");
  text.AddHandle("toy", this->toy);
  text.AddArray("colours", this->colours);
  text.AddStrings("names", this->names);
  return text.Take();
}

void cuToyPaintReply::Encode(Encoder& out) const {
  PutPod(out, this->place);
  PutString(out, this->text);
}
bool cuToyPaintReply::Decode(Decoder& in) {
  GetPod(in, &this->place);
  GetString(in, &this->text);
  return in.ok();
}
std::string cuToyPaintReply::ToString() const {
  FieldText text("cuToyPaintReply");
  text.AddPod("place", this->place);
  text.AddString("text", this->text);
  return text.Take();
}

void cuToyThrowRequest::Encode(Encoder& out) const {
  PutFixed(out, this->toy, this->stream);
}
bool cuToyThrowRequest::Decode(Decoder& in) {
  GetFixed(in, &this->toy, &this->stream);
  return in.ok();
}
std::string cuToyThrowRequest::ToString() const {
  FieldText text("cuToyThrowRequest");
  text.AddHandle("toy", this->toy);
  text.AddHandle("stream", this->stream);
  return text.Take();
}

void cuToyThrowReply::Encode(Encoder& out) const {
}
bool cuToyThrowReply::Decode(Decoder& in) {
  return in.ok();
}
std::string cuToyThrowReply::ToString() const {
  FieldText text("cuToyThrowReply");
  return text.Take();
}

void cuToyHurlRequest::Encode(Encoder& out) const {
  PutFixed(out, this->toy, this->stream);
}
bool cuToyHurlRequest::Decode(Decoder& in) {
  GetFixed(in, &this->toy, &this->stream);
  return in.ok();
}
std::string cuToyHurlRequest::ToString() const {
  FieldText text("cuToyHurlRequest");
  text.AddHandle("toy", this->toy);
  text.AddHandle("stream", this->stream);
  return text.Take();
}

void cuToyHurlReply::Encode(Encoder& out) const {
}
bool cuToyHurlReply::Decode(Decoder& in) {
  return in.ok();
}
std::string cuToyHurlReply::ToString() const {
  FieldText text("cuToyHurlReply");
  return text.Take();
}

void tesseraToyTickRequest::Encode(Encoder& out) const {
  PutPod(out, this->time_ns);
}
bool tesseraToyTickRequest::Decode(Decoder& in) {
  GetPod(in, &this->time_ns);
  return in.ok();
}
std::string tesseraToyTickRequest::ToString() const {
  FieldText text("tesseraToyTickRequest");
  text.AddPod("time_ns", this->time_ns);
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
