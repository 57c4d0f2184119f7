// Intrusive reference counting for long-lived kernel objects. No shared_ptr, no weak references.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>

namespace uks {

// Base of every reference-counted object. Objects start with a count of one, owned by make_ref's
// Ref.
class RefCounted {
 public:
  RefCounted() = default;
  RefCounted(const RefCounted&) = delete;
  RefCounted& operator=(const RefCounted&) = delete;
  virtual ~RefCounted() = default;

  void ref() const { count_.fetch_add(1, std::memory_order_relaxed); }
  void unref() const {
    if (count_.fetch_sub(1, std::memory_order_acq_rel) == 1)
      const_cast<RefCounted*>(this)->last_ref();
  }
  uint32_t ref_count() const { return count_.load(std::memory_order_relaxed); }

 protected:
  // Called when the last reference is gone. The default deletes the object.
  virtual void last_ref() { delete this; }

 private:
  mutable std::atomic<uint32_t> count_{1};
};

template <typename T>
class Ref {
 public:
  Ref() = default;
  Ref(std::nullptr_t) {}  // NOLINT(google-explicit-constructor)
  explicit Ref(T* object) : object_(object) {
    if (object_) object_->ref();
  }
  Ref(const Ref& other) : Ref(other.object_) {}
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  template <typename U>
    requires std::is_convertible_v<U*, T*>
  Ref(const Ref<U>& other) : Ref(other.get()) {}  // NOLINT(google-explicit-constructor)
  template <typename U>
    requires std::is_convertible_v<U*, T*>
  Ref(Ref<U>&& other) noexcept : object_(other.release()) {}  // NOLINT(google-explicit-constructor)
  ~Ref() {
    if (object_) object_->unref();
  }
  Ref& operator=(Ref other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }

  // Takes over a reference that the caller owns.
  static Ref adopt(T* object) {
    Ref r;
    r.object_ = object;
    return r;
  }
  // Gives the reference up to the caller.
  T* release() { return std::exchange(object_, nullptr); }

  T* get() const { return object_; }
  T* operator->() const { return object_; }
  T& operator*() const { return *object_; }
  explicit operator bool() const { return object_ != nullptr; }
  friend bool operator==(const Ref& a, const Ref& b) { return a.object_ == b.object_; }
  friend bool operator==(const Ref& a, std::nullptr_t) { return a.object_ == nullptr; }

 private:
  T* object_ = nullptr;
};

template <typename T, typename... Args>
Ref<T> make_ref(Args&&... args) {
  return Ref<T>::adopt(new T(std::forward<Args>(args)...));
}

// A downcast that the caller knows to be right (no RTTI here).
template <typename T, typename U>
Ref<T> ref_cast(const Ref<U>& r) {
  return Ref<T>(static_cast<T*>(r.get()));
}

}  // namespace uks

template <typename T>
struct std::hash<uks::Ref<T>> {
  size_t operator()(const uks::Ref<T>& r) const noexcept { return std::hash<T*>()(r.get()); }
};
