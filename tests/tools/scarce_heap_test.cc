// What holds when the heap refuses large allocations: tools/reliability/scarce_heap.cc replaces this program's operator new.
#include "tools/reliability/scarce_heap.h"

#include <gtest/gtest.h>

#include <new>
#include <string>
#include <vector>

#include "base/json.h"

namespace reprise::tools {
namespace {

class ScarceHeap : public testing::Test {
 protected:
  /// Allocates and frees. The compiler must not leave both out, so the memory is written through a volatile.
  static void allocate(std::size_t bytes) {
    std::vector<char> memory(bytes);
    *static_cast<volatile char*>(memory.data()) = 1;
  }
  void TearDown() override { scarce_heap::refuse_one_in(0, 1); }
};

TEST_F(ScarceHeap, RefusesLargeAllocationsAlone) {
  const std::uint64_t before = scarce_heap::refusals();
  scarce_heap::refuse_one_in(1, 1);
  EXPECT_NO_THROW(allocate(scarce_heap::kLarge));
  EXPECT_THROW(allocate(scarce_heap::kLarge + 1), std::bad_alloc);
  EXPECT_EQ(scarce_heap::refusals(), before + 1);
  scarce_heap::refuse_one_in(0, 1);
  EXPECT_NO_THROW(allocate(scarce_heap::kLarge + 1));
}

TEST_F(ScarceHeap, CopyOfJsonThatDoesNotFitThrows) {
  Json::Array list;
  list.push_back(Json{{"role", "user"}, {"content", std::string(2 * scarce_heap::kLarge, 'x')}});
  const Json whole(std::move(list));
  Json other("before");
  scarce_heap::refuse_one_in(1, 1);
  EXPECT_THROW(static_cast<void>(Json(whole)), std::bad_alloc);
  EXPECT_THROW(other = whole, std::bad_alloc);
  scarce_heap::refuse_one_in(0, 1);
  EXPECT_EQ(other, Json("before"));
  EXPECT_EQ(Json(whole), whole);
}

}  // namespace
}  // namespace reprise::tools
