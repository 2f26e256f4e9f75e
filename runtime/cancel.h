#pragma once
// Cancellation of an actor's waits.
//
// A CancelSource and its tokens belong to one actor. A wait that was given a token (ask, sleep, stream reads
// and writes, Asio operations) ends with kCanceled when the source is canceled, or immediately if it
// already was. To cancel from another thread or actor, send the owner a message whose handler calls cancel().
//
// Threading: the actor's executor only.

#include <memory>
#include <utility>

namespace reprise::runtime {

class CancelToken;

/// A callback for the cancellation of a token, embedded in a wait. Removes itself on destruction.
class CancelRegistration {
 public:
  using Notify = void (*)(CancelRegistration&);

  explicit CancelRegistration(Notify notify) : notify_(notify) {}
  ~CancelRegistration() { remove(); }
  CancelRegistration(const CancelRegistration&) = delete;
  CancelRegistration& operator=(const CancelRegistration&) = delete;

  /// Requires: `token` can be canceled and has not been.
  void add_to(const CancelToken& token);
  void remove();

 private:
  friend class CancelSource;
  struct List;
  friend class CancelToken;

  struct List {
    bool canceled = false;
    CancelRegistration* first = nullptr;
  };

  std::shared_ptr<List> list_;
  CancelRegistration* previous_ = nullptr;
  CancelRegistration* next_ = nullptr;
  Notify notify_;
};

class CancelToken {
 public:
  CancelToken() = default;  // can never be canceled

  bool can_be_canceled() const { return list_ != nullptr; }
  bool canceled() const { return list_ != nullptr && list_->canceled; }

 private:
  friend class CancelSource;
  friend class CancelRegistration;
  explicit CancelToken(std::shared_ptr<CancelRegistration::List> list) : list_(std::move(list)) {}
  std::shared_ptr<CancelRegistration::List> list_;
};

class CancelSource {
 public:
  CancelSource() : list_(std::make_shared<CancelRegistration::List>()) {}

  CancelToken token() const { return CancelToken(list_); }
  bool canceled() const { return list_->canceled; }

  /// Ends all waits that hold a token of this source; each resumes in its own turn. Later calls do nothing.
  void cancel() {
    const std::shared_ptr<CancelRegistration::List> list = list_;
    list->canceled = true;
    while (CancelRegistration* registration = list->first) {
      registration->remove();
      registration->notify_(*registration);
    }
  }

 private:
  std::shared_ptr<CancelRegistration::List> list_;
};

inline void CancelRegistration::add_to(const CancelToken& token) {
  list_ = token.list_;
  previous_ = nullptr;
  next_ = list_->first;
  if (next_ != nullptr) next_->previous_ = this;
  list_->first = this;
}

inline void CancelRegistration::remove() {
  if (list_ == nullptr) return;
  if (previous_ != nullptr) {
    previous_->next_ = next_;
  } else {
    list_->first = next_;
  }
  if (next_ != nullptr) next_->previous_ = previous_;
  list_.reset();
}

}  // namespace reprise::runtime
