#include "models/text/merge_queue.h"

#include <algorithm>
#include <functional>

namespace reprise::models {

void MergeQueue::Bucket::put(std::uint32_t place) {
  if (places.empty() || place >= places.back()) {
    places.push_back(place);
  } else if (taken == 0) {
    places.push_back(place);
    is_sorted = false;
  } else {
    late.push_back(place);
    std::push_heap(late.begin(), late.end(), std::greater<>());
  }
}

bool MergeQueue::Bucket::take(std::uint32_t& place) {
  if (!is_sorted) std::sort(places.begin(), places.end());
  is_sorted = true;
  const bool has_next = taken < places.size();
  if (!late.empty() && (!has_next || late.front() < places[taken])) {
    place = late.front();
    std::pop_heap(late.begin(), late.end(), std::greater<>());
    late.pop_back();
    return true;
  }
  if (has_next) place = places[taken++];
  return has_next;
}

void MergeQueue::Bucket::clear() {
  places.clear();
  late.clear();
  taken = 0;
  is_sorted = true;
}

void MergeQueue::reset(std::size_t ranks) {
  for (const std::uint32_t rank : ranks_) {
    buckets_[bucket_of_[rank]].clear();
    free_.push_back(bucket_of_[rank]);
    bucket_of_[rank] = kNone;
  }
  ranks_.clear();
  if (bucket_of_.size() < ranks) bucket_of_.resize(ranks, kNone);
}

void MergeQueue::push(std::uint32_t rank, std::uint32_t place) {
  std::uint32_t& number = bucket_of_[rank];
  if (number == kNone) {
    if (free_.empty()) {
      free_.push_back(static_cast<std::uint32_t>(buckets_.size()));
      buckets_.emplace_back();
    }
    number = free_.back();
    free_.pop_back();
    ranks_.push_back(rank);
    std::push_heap(ranks_.begin(), ranks_.end(), std::greater<>());
  }
  buckets_[number].put(place);
}

bool MergeQueue::pop(Entry& entry) {
  while (!ranks_.empty()) {
    const std::uint32_t rank = ranks_.front();
    Bucket& bucket = buckets_[bucket_of_[rank]];
    entry.rank = rank;
    if (bucket.take(entry.place)) return true;
    bucket.clear();
    free_.push_back(bucket_of_[rank]);
    bucket_of_[rank] = kNone;
    std::pop_heap(ranks_.begin(), ranks_.end(), std::greater<>());
    ranks_.pop_back();
  }
  return false;
}

}  // namespace reprise::models
