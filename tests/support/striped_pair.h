// Two ends of a link of several connections, in one process.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "protocol/link/impaired_link.h"
#include "protocol/link/striped_link.h"

namespace tessera {

// As MakeImpairedLink(), of a link that is its own.
inline std::unique_ptr<Link> MakeOwningImpairedLink(std::unique_ptr<Link> link, const Impairment& impairment) {
  class Owning : public Link {
   public:
    Owning(std::unique_ptr<Link> link, const Impairment& impairment)
        : link_(std::move(link)), impaired_(MakeImpairedLink(*link_, impairment)) {}
    Status Send(const FrameHeader& header, std::span<const std::byte> payload) override {
      return impaired_->Send(header, payload);
    }
    Result<FrameHeader> Receive(const Place& place) override { return impaired_->Receive(place); }
    void Close() override { impaired_->Close(); }
    void Drop() override { impaired_->Drop(); }

   private:
    const std::unique_ptr<Link> link_, impaired_;
  };
  return std::make_unique<Owning>(std::move(link), impairment);
}

// `make(i)` makes the two ends of connection i.
template <typename Make>
std::pair<std::unique_ptr<Link>, std::unique_ptr<Link>> MakeStripedPair(size_t connections, const Make& make) {
  std::vector<std::unique_ptr<Link>> ends[2];
  for (size_t i = 0; i < connections; ++i) {
    auto [near, far] = make(i);
    ends[0].push_back(std::move(near));
    ends[1].push_back(std::move(far));
  }
  return {MakeStripedLink(std::move(ends[0])).value(), MakeStripedLink(std::move(ends[1])).value()};
}

}  // namespace tessera
