// An amount of something that holders of sessions (protocol/wire/holder.h) take and give back: sessions, shared objects,
// descriptors, bytes. Nothing that was given is taken away again, so this decides about what is asked for:
//
// - While nobody else asks, a holder may have everything but a reserve.
// - Whoever was refused lately, or says that he waits, asks. While others ask, a holder gets no more than its equal share, as far
//   as more would take from what those are short of (max-min fair: what one does not want is the others').
// - The reserve is for who comes next: a holder takes from it up to an equal share of everything, and no more than it leaves
//   there. One unit it may have as long as there is one.
//
// Plain numbers, no clock of its own. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace tessera {

class FairBound {
 public:
  struct Limits {
    uint64_t total = 0;
    uint64_t reserve = 0;
    uint64_t unit = 1;
  };
  // For how long whoever was refused is taken to want it still.
  static constexpr uint64_t kAskedNs = 10'000'000'000;

  explicit FairBound(const Limits& limits) : limits_(limits) {}
  // Counts from now on. What was given stays given, also where it is more than there is now.
  void SetLimits(const Limits& limits) { limits_ = limits; }

  // Gives `amount` to the holder, or refuses it and remembers that the holder asks for it. `now_ns` never goes back.
  bool Take(const std::string& holder, uint64_t amount, uint64_t now_ns);
  // Of what Take() has given.
  void GiveBack(const std::string& holder, uint64_t amount);
  // The holder waits for so much in all, in place of what was remembered of it; 0: for nothing.
  void Want(const std::string& holder, uint64_t amount, uint64_t now_ns);

  uint64_t held(const std::string& holder) const;
  // Who have something, or ask.
  std::vector<std::string> holders() const;
  uint64_t used() const { return used_; }
  const Limits& limits() const { return limits_; }

 private:
  struct Holder {
    uint64_t held = 0;
    uint64_t wanted = 0;
    uint64_t asked_ns = 0;
    uint64_t demand() const;
  };

  bool May(const Holder& holder, uint64_t amount) const;
  // Of an amount what everybody may have at least who wants it. `asker` wants `amount` more, at least.
  uint64_t EqualShare(uint64_t rest, const Holder& asker, uint64_t amount) const;
  void ForgetOldAsks(uint64_t now_ns);

  Limits limits_;
  uint64_t used_ = 0;
  std::map<std::string, Holder> holders_;  // who have or want something
};

// What a holder has been given (FairBound::Take), until this ends.
class HeldPart {
 public:
  HeldPart() = default;  // nothing
  // `bound` outlives this.
  HeldPart(FairBound& bound, std::string holder, uint64_t amount) : bound_(&bound), holder_(std::move(holder)), amount_(amount) {}
  HeldPart(HeldPart&& other) noexcept
      : bound_(std::exchange(other.bound_, nullptr)), holder_(std::move(other.holder_)), amount_(other.amount_) {}
  HeldPart& operator=(HeldPart&& other) noexcept {
    std::swap(bound_, other.bound_);
    std::swap(holder_, other.holder_);
    std::swap(amount_, other.amount_);
    return *this;
  }
  // Makes it so much. False: there is no room for more, and it stays as it was.
  bool Resize(uint64_t amount, uint64_t now_ns) {
    if (bound_ == nullptr) return amount == 0;
    if (amount > amount_ && !bound_->Take(holder_, amount - amount_, now_ns)) return false;
    if (amount < amount_) bound_->GiveBack(holder_, amount_ - amount);
    amount_ = amount;
    return true;
  }
  ~HeldPart() {
    if (bound_ != nullptr) bound_->GiveBack(holder_, amount_);
  }

 private:
  FairBound* bound_ = nullptr;
  std::string holder_;
  uint64_t amount_ = 0;
};

}  // namespace tessera
