// An array in a message: elements that lie in somebody else's memory (the caller's, or the decoded record), or, where
// they would lie there unaligned or not at all, in memory of its own. Moves, never copies. Used by one thread.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

namespace tessera {

template <typename T>
class Array {
 public:
  Array() = default;
  Array(Array&& other) noexcept : view_(std::exchange(other.view_, {})), own_(std::move(other.own_)) {}
  Array& operator=(Array&& other) noexcept {
    view_ = std::exchange(other.view_, {});
    own_ = std::move(other.own_);
    return *this;
  }

  // Points to `size` elements that outlive this array.
  void Borrow(const T* data, size_t size) { view_ = {data, size}; }
  void Borrow(std::span<const T> elements) { view_ = elements; }
  // Makes room for `size` zero elements of its own, to be filled in through the returned pointer.
  T* Allocate(size_t size) {
    own_ = std::make_unique<T[]>(size);
    view_ = {own_.get(), size};
    return own_.get();
  }

  const T* data() const { return view_.data(); }
  size_t size() const { return view_.size(); }
  size_t size_bytes() const { return view_.size_bytes(); }
  bool empty() const { return view_.empty(); }
  const T& operator[](size_t i) const { return view_[i]; }
  const T* begin() const { return view_.data(); }
  const T* end() const { return view_.data() + view_.size(); }
  operator std::span<const T>() const { return view_; }  // NOLINT: an array is a span that may own

 private:
  std::span<const T> view_;
  std::unique_ptr<T[]> own_;
};

}  // namespace tessera
