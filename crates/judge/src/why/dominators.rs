//! Graphs of up to billions of edges: what each node is reached through (dominators), and cycles.
//! Nothing here recurses.

/// A directed graph. Nodes are numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Graph {
    /// Where the successors of each node begin; one more than there are nodes.
    starts: Vec<u32>,
    targets: Vec<u32>,
}

/// Stands for no node.
pub(crate) const NONE: u32 = u32::MAX;

impl Graph {
    /// Takes edges in any order.
    pub(crate) fn new(nodes: usize, edges: impl Iterator<Item = (u32, u32)> + Clone) -> Self {
        let mut starts = vec![0_u32; nodes + 1];
        for (from, _) in edges.clone() {
            starts[from as usize + 1] += 1;
        }
        for node in 0..nodes {
            starts[node + 1] += starts[node];
        }
        let mut next = starts.clone();
        let mut targets = vec![0; starts[nodes] as usize];
        for (from, to) in edges {
            let place = &mut next[from as usize];
            targets[*place as usize] = to;
            *place += 1;
        }
        Self { starts, targets }
    }

    pub(crate) fn len(&self) -> usize {
        self.starts.len().saturating_sub(1)
    }

    pub(crate) fn successors(&self, node: u32) -> &[u32] {
        let node = node as usize;
        &self.targets[self.starts[node] as usize..self.starts[node + 1] as usize]
    }

    fn edges(&self) -> impl Iterator<Item = (u32, u32)> + Clone {
        (0..self.len()).flat_map(move |node| {
            let node = u32::try_from(node).unwrap_or(NONE);
            self.successors(node).iter().map(move |to| (node, *to))
        })
    }

    fn reversed(&self) -> Self {
        Self::new(self.len(), self.edges().map(|(from, to)| (to, from)))
    }

    /// Marks what these nodes reach with a number, through nodes that have `NONE` so far.
    pub(crate) fn mark(&self, from: impl Iterator<Item = u32>, number: u32, marks: &mut [u32]) {
        let mut open: Vec<u32> = Vec::new();
        let mut mark = |node: u32, open: &mut Vec<u32>| {
            if marks[node as usize] == NONE {
                marks[node as usize] = number;
                open.push(node);
            }
        };
        for node in from {
            mark(node, &mut open);
            while let Some(node) = open.pop() {
                self.successors(node).iter().for_each(|to| mark(*to, &mut open));
            }
        }
    }

    /// The nodes that the root reaches, each after the one that it was found from, and that one's number
    /// in this list.
    fn preorder(&self, root: u32) -> (Vec<u32>, Vec<u32>, Vec<u32>) {
        let mut number = vec![NONE; self.len()];
        let (mut order, mut parents) = (vec![root], vec![0]);
        number[root as usize] = 0;
        // A node, and how many of its successors are done.
        let mut path = vec![(root, 0_usize)];
        while let Some((node, done)) = path.last_mut() {
            let from = *node;
            let Some(&to) = self.successors(from).get(*done) else {
                path.pop();
                continue;
            };
            *done += 1;
            if number[to as usize] == NONE {
                number[to as usize] = u32::try_from(order.len()).unwrap_or(NONE);
                order.push(to);
                parents.push(number[from as usize]);
                path.push((to, 0));
            }
        }
        (order, parents, number)
    }

    /// Returns the nodes that the root reaches, each with its immediate dominator, which comes before it.
    /// The first is the root itself.
    ///
    /// The algorithm is semi-NCA (Georgiadis, 2005): its time is nearly linear.
    pub(crate) fn dominators(&self, root: u32) -> Vec<(u32, u32)> {
        let (order, parents, number) = self.preorder(root);
        let before = self.reversed();
        let count = order.len();
        let count_32 = u32::try_from(count).unwrap_or(NONE);
        let mut semi: Vec<u32> = (0..count_32).collect();
        let mut best = semi.clone();
        let mut ancestor = vec![NONE; count];
        let mut path = Vec::new();
        for at in (1..count).rev() {
            let node = order[at];
            let mut least = parents[at];
            for from in before.successors(node) {
                let from = number[*from as usize];
                if from != NONE {
                    let through = if from as usize <= at {
                        from
                    } else {
                        compress(from, &mut ancestor, &mut best, &semi, &mut path);
                        semi[best[from as usize] as usize]
                    };
                    least = least.min(through);
                }
            }
            semi[at] = least;
            ancestor[at] = parents[at];
        }
        let mut found = parents;
        for at in 1..count {
            let mut dominator = found[at];
            while dominator > semi[at] {
                dominator = found[dominator as usize];
            }
            found[at] = dominator;
        }
        (0..count).map(|at| (order[at], order[found[at] as usize])).collect()
    }

    /// Returns the strongly connected components among these nodes, each with whether an edge from another
    /// of these nodes leads into it.
    pub(crate) fn components(&self, among: &[bool]) -> Vec<(Vec<u32>, bool)> {
        let mut search = Components {
            index: vec![NONE; self.len()],
            low: vec![0; self.len()],
            of: vec![NONE; self.len()],
            stack: Vec::new(),
            found: Vec::new(),
            next: 0,
        };
        for node in 0..u32::try_from(self.len()).unwrap_or(NONE) {
            if among[node as usize] && search.index[node as usize] == NONE {
                search.from(self, node, among);
            }
        }
        let mut is_entered = vec![false; search.found.len()];
        for (from, to) in self.edges() {
            let (from, to) = (search.of[from as usize], search.of[to as usize]);
            if from != NONE && to != NONE && from != to {
                is_entered[to as usize] = true;
            }
        }
        search.found.into_iter().zip(is_entered).collect()
    }
}

/// Shortens the path from a node to the root of its tree, and notes the node with the least semidominator on
/// it.
fn compress(node: u32, ancestor: &mut [u32], best: &mut [u32], semi: &[u32], path: &mut Vec<u32>) {
    let mut at = node;
    while ancestor[at as usize] != NONE && ancestor[ancestor[at as usize] as usize] != NONE {
        path.push(at);
        at = ancestor[at as usize];
    }
    while let Some(below) = path.pop() {
        let above = ancestor[below as usize];
        if semi[best[above as usize] as usize] < semi[best[below as usize] as usize] {
            best[below as usize] = best[above as usize];
        }
        ancestor[below as usize] = ancestor[above as usize];
    }
}

/// Tarjan's algorithm.
struct Components {
    index: Vec<u32>,
    low: Vec<u32>,
    /// The component of each node.
    of: Vec<u32>,
    stack: Vec<u32>,
    found: Vec<Vec<u32>>,
    next: u32,
}

impl Components {
    fn begin(&mut self, node: u32) {
        (self.index[node as usize], self.low[node as usize]) = (self.next, self.next);
        self.next += 1;
        self.stack.push(node);
    }

    fn from(&mut self, graph: &Graph, node: u32, among: &[bool]) {
        let mut path = vec![(node, 0_usize)];
        self.begin(node);
        while let Some((node, done)) = path.last_mut() {
            let (from, next) = (*node, graph.successors(*node).get(*done).copied());
            *done += 1;
            if let Some(to) = next.filter(|to| among[*to as usize]) {
                if self.index[to as usize] == NONE {
                    self.begin(to);
                    path.push((to, 0));
                } else if self.of[to as usize] == NONE {
                    self.low[from as usize] = self.low[from as usize].min(self.index[to as usize]);
                }
            } else if next.is_none() {
                path.pop();
                if let Some((above, _)) = path.last() {
                    let above = *above as usize;
                    self.low[above] = self.low[above].min(self.low[from as usize]);
                }
                if self.low[from as usize] == self.index[from as usize] {
                    self.take(from);
                }
            }
        }
    }

    fn take(&mut self, first: u32) {
        let number = u32::try_from(self.found.len()).unwrap_or(NONE);
        let mut component = Vec::new();
        while let Some(node) = self.stack.pop() {
            self.of[node as usize] = number;
            component.push(node);
            if node == first {
                break;
            }
        }
        self.found.push(component);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(nodes: usize, edges: &[(u32, u32)]) -> Graph {
        Graph::new(nodes, edges.iter().copied())
    }

    /// By removing each node in turn.
    fn slow_dominators(graph: &Graph, root: u32) -> Vec<(u32, u32)> {
        let count = u32::try_from(graph.len()).unwrap();
        let reached = |without: Option<u32>| {
            let mut marks = vec![NONE; graph.len()];
            if let Some(node) = without {
                marks[node as usize] = 1;
            }
            graph.mark(std::iter::once(root), 0, &mut marks);
            marks.into_iter().map(|mark| mark == 0).collect::<Vec<_>>()
        };
        let all = reached(None);
        let dominates: Vec<Vec<bool>> = (0..count)
            .map(|node| {
                let left = if node == root { vec![false; graph.len()] } else { reached(Some(node)) };
                all.iter().zip(left).map(|(all, left)| *all && !left).collect()
            })
            .collect();
        let mut found = Vec::new();
        for node in (0..count).filter(|node| all[*node as usize]) {
            let above = (0..count).filter(|other| {
                *other != node && all[*other as usize] && dominates[*other as usize][node as usize]
            });
            // The nearest one is dominated by all others.
            let nearest = above.max_by_key(|one| dominates.iter().filter(|of| of[*one as usize]).count());
            found.push((node, nearest.unwrap_or(root)));
        }
        found
    }

    #[test]
    fn dominators_of_random_graphs_are_those_of_the_definition() {
        let mut random = 7_u64;
        let mut next = |below: u32| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            u32::try_from(random >> 33).unwrap() % below
        };
        for round in 0..400 {
            let nodes = 1 + next(14);
            let edges: Vec<_> = (0..next(40)).map(|_| (next(nodes), next(nodes))).collect();
            let graph = graph(nodes as usize, &edges);
            let mut found = graph.dominators(0);
            for (at, (_, dominator)) in found.iter().enumerate().skip(1) {
                assert!(found[..at].iter().any(|(node, _)| node == dominator), "{round}: {edges:?}");
            }
            found.sort_unstable();
            assert_eq!(found, slow_dominators(&graph, 0), "{round}: {edges:?}");
        }
    }

    #[test]
    fn a_list_of_a_million_nodes_needs_no_deep_stack() {
        let count = 1_000_000_u32;
        let edges = (0..count - 1).flat_map(|node| [(node, node + 1), (node + 1, node)]);
        let graph = Graph::new(count as usize, edges);
        let found = graph.dominators(0);
        assert!(found.iter().skip(1).all(|(node, dominator)| *dominator == node - 1));
        let components = graph.components(&vec![true; count as usize]);
        assert_eq!(components.len(), 1);
    }

    #[test]
    fn components_are_cycles_and_say_whether_something_leads_in() {
        let graph = graph(7, &[(0, 1), (1, 2), (2, 1), (2, 3), (4, 4), (5, 6), (6, 5)]);
        let mut among = vec![true; 7];
        among[6] = false;
        let mut found = graph.components(&among);
        for (nodes, _) in &mut found {
            nodes.sort_unstable();
        }
        found.sort();
        let expected =
            [(vec![0], false), (vec![1, 2], true), (vec![3], true), (vec![4], false), (vec![5], false)];
        assert_eq!(found, expected);
    }
}
