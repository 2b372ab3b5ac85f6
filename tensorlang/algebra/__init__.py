"""What is known of integers: intervals, rules of simplification, formulas, and exact answers by isl."""
