-- Each hour updates what was seen of every open allocation, and no indexed column of it. With room on
-- its own page such an update touches none of the seven indexes.
ALTER TABLE metering_podallocation SET (fillfactor = 50);
-- reverse
ALTER TABLE metering_podallocation RESET (fillfactor);
