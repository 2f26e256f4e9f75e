#include "protocol/http/connection_lists.h"

#include <algorithm>
#include <array>
#include <chrono>

#include "base/check.h"

namespace reprise::protocol {

using runtime::TimePoint;

namespace {

constexpr double kOrdinarySpeed = 64 << 10;  // bytes/s expected of a request

template <std::size_t N>
std::uint64_t first_bits(const std::array<unsigned char, N>& bytes, std::size_t count) {
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < count; ++i) bits = bits << 8 | bytes[i];
  return bits;
}

}  // namespace

SenderNetwork network_of(const boost::asio::ip::address& address) {
  if (address.is_v4()) return {address.to_v4().to_uint(), false};
  const boost::asio::ip::address_v6 v6 = address.to_v6();
  const auto bytes = v6.to_bytes();
  if (v6.is_v4_mapped()) {
    return {std::uint64_t{bytes[12]} << 24 | std::uint64_t{bytes[13]} << 16 | std::uint64_t{bytes[14]} << 8 |
                bytes[15],
            false};
  }
  return {first_bits(bytes, 8), true};
}

SenderList::Entry::~Entry() {
  SenderList::remove(*this);
}

SenderList::~SenderList() {
  REPRISE_CHECK(size_ == 0, "the list of senders was destroyed before its entries");
}

void SenderList::add(Entry& entry, const SenderNetwork& network, TimePoint now) {
  if (entry.list_ != nullptr) return;
  entry.list_ = this;
  entry.network_ = network;
  entry.began_ = now;
  entry.bytes_ = 0;
  senders_[network].entries.push_back(entry);
  ++size_;
}

void SenderList::note(Entry& entry, std::size_t bytes) {
  if (entry.list_ == nullptr) return;
  entry.list_->senders_.at(entry.network_).bytes += bytes - entry.bytes_;
  entry.bytes_ = bytes;
}

void SenderList::remove(Entry& entry) {
  if (entry.list_ == nullptr) return;
  SenderList& list = *entry.list_;
  entry.list_ = nullptr;
  const auto found = list.senders_.find(entry.network_);
  auto& entries = found->second.entries;
  entries.erase(entries.iterator_to(entry));
  found->second.bytes -= entry.bytes_;
  if (entries.empty()) list.senders_.erase(found);
  --list.size_;
}

bool SenderList::close_one(std::size_t at_least, TimePoint now) {
  const auto largest = std::max_element(senders_.begin(), senders_.end(), [](const auto& a, const auto& b) {
    return a.second.entries.size() < b.second.entries.size();
  });
  if (largest == senders_.end() || largest->second.entries.size() < at_least) return false;
  // Compares the bytes missing against the expected speed, so that a fast upload is not stopped just because
  // it is long.
  const auto arrears = [&](const Entry& entry) {
    const double seconds = std::chrono::duration<double>(now - entry.began_).count();
    return seconds * kOrdinarySpeed - static_cast<double>(entry.bytes_);
  };
  auto& entries = largest->second.entries;
  const auto slowest = std::max_element(entries.begin(), entries.end(), [&](const Entry& a, const Entry& b) {
    return arrears(a) < arrears(b);
  });
  slowest->stop_sending();
  return true;
}

std::size_t SenderList::size_of(const SenderNetwork& network) const {
  const auto found = senders_.find(network);
  return found == senders_.end() ? 0 : found->second.entries.size();
}

std::size_t SenderList::bytes_of(const SenderNetwork& network) const {
  const auto found = senders_.find(network);
  return found == senders_.end() ? 0 : found->second.bytes;
}

}  // namespace reprise::protocol
