// Goal: lines come out whole, however the bytes come in. Method: one text in every cut.
#include "live/agent/line_splitter.h"

#include <gtest/gtest.h>

namespace paceline::agent {
namespace {

using Lines = std::vector<std::string>;

TEST(LineSplitter, AnyCut_SameLines) {
  const std::string text = "one\n\ntwo\r\nthree";
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    LineSplitter splitter;
    Lines lines = splitter.add(text.substr(0, cut));
    for (const std::string& line : splitter.add(text.substr(cut))) lines.push_back(line);
    EXPECT_EQ(lines, (Lines{"one", "", "two"})) << "cut at " << cut;
    EXPECT_EQ(splitter.finish(), Lines{"three"}) << "cut at " << cut;
    EXPECT_EQ(splitter.finish(), Lines{});
  }
}

TEST(LineSplitter, LongLine_IsCutNotHeld) {
  LineSplitter splitter;
  const Lines lines = splitter.add(std::string(2 * kMaxLineBytes + 7, 'x'));
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0].size(), kMaxLineBytes);
  EXPECT_EQ(splitter.add("\n"), Lines{std::string(7, 'x')});
}

}  // namespace
}  // namespace paceline::agent
